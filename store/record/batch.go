package record

import (
	"encoding/binary"
	"errors"
)

// BatchItem is one element of a client batch body.
type BatchItem struct {
	Flag       int32
	Body       []byte
	Properties []byte
}

// ErrBatch says that the body of a batch is not a row of elements.
var ErrBatch = errors.New("batch body is malformed")

// batchItemSize is an element without body and properties: int32 total size,
// magic 0, crc 0, flag, body length; int16 property length.
const batchItemSize = 22

// NextBatchItem cuts the first element of a batch body, as
// MessageDecoder.encodeMessages writes it. Magic and checksum of the client
// are not looked at, as in Apache's broker. The error is ErrBatch.
func NextBatchItem(b []byte) (item BatchItem, rest []byte, err error) {
	if len(b) < batchItemSize {
		return item, nil, ErrBatch
	}
	be := binary.BigEndian
	size := int(int32(be.Uint32(b)))
	body := int(int32(be.Uint32(b[16:])))
	if size < batchItemSize || size > len(b) || body < 0 || body > size-batchItemSize {
		return item, nil, ErrBatch
	}
	props := int(int16(be.Uint16(b[20+body:])))
	if props < 0 || batchItemSize+body+props != size {
		return item, nil, ErrBatch
	}
	item.Flag = int32(be.Uint32(b[12:]))
	item.Body = b[20 : 20+body : 20+body]
	item.Properties = b[22+body : size : size]
	return item, b[size:], nil
}

// AppendBatchItem appends an element to a batch body, for clients. Errors:
// ErrPropertiesLength.
func AppendBatchItem(dst []byte, item BatchItem) ([]byte, error) {
	if len(item.Properties) > MaxPropertyBytes {
		return dst, ErrPropertiesLength
	}
	be := binary.BigEndian
	dst = be.AppendUint32(dst, uint32(batchItemSize+len(item.Body)+len(item.Properties)))
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	dst = be.AppendUint32(dst, uint32(item.Flag))
	dst = be.AppendUint32(dst, uint32(len(item.Body)))
	dst = append(dst, item.Body...)
	dst = be.AppendUint16(dst, uint16(len(item.Properties)))
	return append(dst, item.Properties...), nil
}
