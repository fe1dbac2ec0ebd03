package main

import (
	"fmt"
	"io"
)

// cpio writes an archive in the "newc" format, which the kernel unpacks as its first root file system
// (Documentation/driver-api/early-userspace/buffer-format.rst in the kernel's sources). All entries
// belong to root and carry no time, so equal content gives equal bytes. The first error is kept and
// returned by close.
type cpio struct {
	w     io.Writer
	inode int
	err   error
}

// The file types in an entry's mode, as in stat(2).
const (
	typeDir    = 0o040000
	typeFile   = 0o100000
	typeLink   = 0o120000
	typeDevice = 0o020000
)

func newCPIO(w io.Writer) *cpio { return &cpio{w: w} }

func (c *cpio) dir(name string) { c.entry(name, typeDir|0o755, 0, 0, nil) }

func (c *cpio) file(name string, mode uint32, content []byte) {
	c.entry(name, typeFile|mode, 0, 0, content)
}

func (c *cpio) link(name, target string) { c.entry(name, typeLink|0o777, 0, 0, []byte(target)) }

// device adds a character device.
func (c *cpio) device(name string, major, minor int) {
	c.entry(name, typeDevice|0o600, major, minor, nil)
}

// close ends the archive.
func (c *cpio) close() error {
	c.entry("TRAILER!!!", 0, 0, 0, nil)
	return c.err
}

// entry writes a header of 110 bytes, the name and the content, each padded to four bytes.
func (c *cpio) entry(name string, mode uint32, major, minor int, content []byte) {
	c.inode++
	// inode, mode, uid, gid, links, mtime, size, device of the file (2), device that it is (2), name size, checksum
	header := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		c.inode, mode, 0, 0, 1, 0, len(content), 0, 0, major, minor, len(name)+1, 0)
	c.write([]byte(header + name + "\x00"))
	c.pad(len(header) + len(name) + 1)
	c.write(content)
	c.pad(len(content))
}

func (c *cpio) pad(n int) { c.write(make([]byte, (4-n%4)%4)) }

func (c *cpio) write(b []byte) {
	if c.err == nil {
		_, c.err = c.w.Write(b)
	}
}
