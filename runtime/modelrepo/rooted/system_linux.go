package rooted

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// shared are the file systems of other machines. They deny leases for reasons of their own, too: NFS where it has no
// delegation, SMB where it has no opportunistic lock.
var shared = map[uint32]bool{
	unix.NFS_SUPER_MAGIC: true, unix.CIFS_SUPER_MAGIC: true, unix.SMB_SUPER_MAGIC: true, unix.SMB2_SUPER_MAGIC: true,
	unix.CEPH_SUPER_MAGIC: true, unix.AFS_SUPER_MAGIC: true, unix.V9FS_MAGIC: true, unix.FUSE_SUPER_MAGIC: true,
}

// written asks for a read lease (fcntl(2)), which the kernel grants only while nobody has the file open for writing. It
// gives the lease back at once: programs that want to write wait for it.
func written(f *os.File) bool {
	var on unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &on); err != nil || shared[uint32(on.Type)] {
		return false
	}
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	if err != nil {
		return errors.Is(err, unix.EAGAIN)
	}
	_, _ = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	return false
}

func free(f *os.File) (bytes int64, known bool) {
	var on unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &on); err != nil || on.Blocks == 0 || on.Frsize <= 0 { // some do not tell
		return 0, false
	}
	return int64(min(on.Bavail, uint64(math.MaxInt64/on.Frsize))) * on.Frsize, true
}
