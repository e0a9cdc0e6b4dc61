// Ring is a table of fixed size whose oldest rows make room for new ones: typed columns, no garbage. Rows are addressed by
// ever growing places; place & mask is the index into a column.
export class Ring {
  // The capacity must be a power of two; columns name their array types.
  constructor(capacity, columns) {
    this.capacity = capacity;
    this.mask = capacity - 1;
    this.first = 0;
    this.next = 0;
    for (const [name, type] of Object.entries(columns)) this[name] = new type(capacity);
  }

  // push makes room for one row and returns its index.
  push() {
    if (this.next - this.first === this.capacity) this.first++;
    return this.next++ & this.mask;
  }

  get length() {
    return this.next - this.first;
  }

  clear() {
    this.first = 0;
    this.next = 0;
  }

  // firstFrom finds the first place whose value in an ascending column is at least that.
  firstFrom(column, value) {
    let low = this.first;
    let high = this.next;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (column[middle & this.mask] < value) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // dropUntil forgets the rows whose value in an ascending column is below that.
  dropUntil(column, value) {
    this.first = this.firstFrom(column, value);
  }
}
