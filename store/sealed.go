package store

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

// Private side files are text: a head that names the format, lines of a name and
// a value, and a last line with the CRC-32 of all before it (FORMAT.md).

// seal appends the last line.
func seal(b *bytes.Buffer) []byte {
	fmt.Fprintf(b, "crc %08x\n", crc32.ChecksumIEEE(b.Bytes()))
	return b.Bytes()
}

// unseal checks head and checksum, and gives set each line.
func unseal(b []byte, head string, set func(name, value string) error) error {
	i := bytes.LastIndex(b, []byte("\ncrc "))
	if i < 0 || string(b[i+1:]) != fmt.Sprintf("crc %08x\n", crc32.ChecksumIEEE(b[:i+1])) {
		return errors.New("checksum does not match")
	}
	lines := strings.Split(string(b[:i]), "\n")
	if lines[0] != head {
		return fmt.Errorf("starts with %q, not with %q", lines[0], head)
	}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, " ")
		if err := set(name, value); err != nil {
			return fmt.Errorf("line %q: %w", line, err)
		}
	}
	return nil
}
