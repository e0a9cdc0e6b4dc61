// What the numbers of proto/weft/v1 mean, in words.

// Why a batch started when it did, by FlushReason: the letter above its block, and a sentence.
export const flush = [
  ['', ''],
  ['B', 'the next request would have exceeded the budget'],
  ['T', 'its waiting time ended'],
  ['B', 'one request alone is over the budget'],
  ['F', 'it was full'],
  ['I', 'the device was idle and waiting gained nothing'],
  ['D', 'waiting longer would have missed a deadline'],
  ['X', 'the server drains'],
  ['U', 'the version is not batched'],
];

// Why it was a queue's turn, by PickRule.
export const rule = [
  '',
  'its target was the earliest',
  'its target was the earliest of those within their shares',
  'it was furthest behind of those beyond their shares',
  'it would have been late at its turn, so it ran beside the batch in flight',
  'nothing else was urgent',
  'nothing else waited',
];

export const flag = { late: 1, failed: 2, background: 4, proof: 8 };
export const end = { answered: 1, late: 2, refused: 3, expired: 4, cancelled: 5, failed: 6 };
export const endWord = ['', 'answered', 'late', 'refused', 'expired', 'cancelled', 'failed'];
const endNames = { REQUEST_END_ANSWERED: 1, REQUEST_END_LATE: 2, REQUEST_END_REFUSED: 3, REQUEST_END_EXPIRED: 4, REQUEST_END_CANCELLED: 5, REQUEST_END_FAILED: 6 };

// endOf reads a RequestEnd, which the streams give as a number and the calls as a name.
export const endOf = (value) => (typeof value === 'number' ? value : (endNames[value] ?? 0));

// reasonWords says why a request was not answered; a reason that it does not know, such as CIRCUIT_OPEN, as it is.
const reasons = { QUEUE_FULL: 'the queue was full', DEADLINE_UNATTAINABLE: 'it could not be answered in time', DROPPED_FOR_GOODPUT: 'given up in overload, so that others are in time',
  EXPIRED: 'ran out of time', CANCELLED: 'its caller gave up', MODEL_NOT_FOUND: 'there is no such model' };
export const reasonWords = (reason) => reasons[reason] ?? reason.toLowerCase().replaceAll('_', ' ');

// ofCaller are the reasons for which nobody but the caller can do anything.
export const ofCaller = new Set(['INVALID_ARGUMENT', 'MODEL_NOT_FOUND', 'TOO_MANY_ROWS', 'MESSAGE_TOO_LARGE', 'PERMISSION_DENIED', 'PRIORITY_DENIED', 'QUOTA_EXCEEDED',
  'CANCELLED', 'SUPERSEDED', 'IDENTITY_UNKNOWN', 'IDENTITY_REQUIRED', 'TOKEN_UNKNOWN', 'TOKEN_MALFORMED', 'TOKEN_EXPIRED']);

// enumWord turns VERSION_STATE_READY into "ready".
export const enumWord = (name, prefix) => (name ?? '').replace(prefix, '').toLowerCase().replaceAll('_', ' ');
