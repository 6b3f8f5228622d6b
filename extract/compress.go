package extract

import (
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
)

// zstdWindow bounds the memory of compression, and of whoever decompresses.
const zstdWindow = 1 << 20

func newZstd(w io.Writer) (*zstd.Encoder, error) {
	return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstdWindow), zstd.WithLowerEncoderMem(true))
}

// compressor returns a writer that compresses into w and must be closed; the name tells how.
func compressor(w io.Writer, compression string) (io.WriteCloser, error) {
	switch compression {
	case CompressionGzip:
		return gzip.NewWriter(w), nil
	case CompressionZstd:
		return newZstd(w)
	default:
		return plainWriter{w}, nil
	}
}

type plainWriter struct{ io.Writer }

func (plainWriter) Close() error { return nil }

// pageCodec compresses the pages of a Parquet file.
type pageCodec interface {
	id() format.CompressionCodec
	encode(w io.Writer, parts ...[]byte) error
}

func newPageCodec(compression string) pageCodec {
	switch compression {
	case CompressionGzip:
		return &streamCodec{codec: format.Gzip, open: func(w io.Writer) (resettable, error) { return gzip.NewWriter(w), nil }}
	case CompressionZstd:
		return &streamCodec{codec: format.Zstd, open: func(w io.Writer) (resettable, error) { return newZstd(w) }}
	default:
		return plainCodec{}
	}
}

type plainCodec struct{}

func (plainCodec) id() format.CompressionCodec { return format.Uncompressed }

func (plainCodec) encode(w io.Writer, parts ...[]byte) error { return writeAll(w, parts) }

// resettable is a compressor that can begin anew.
type resettable interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// streamCodec makes one compressor serve all pages.
type streamCodec struct {
	codec format.CompressionCodec
	open  func(io.Writer) (resettable, error)
	w     resettable
}

func (c *streamCodec) id() format.CompressionCodec { return c.codec }

func (c *streamCodec) encode(w io.Writer, parts ...[]byte) (err error) {
	if c.w == nil {
		c.w, err = c.open(w)
	} else {
		c.w.Reset(w)
	}
	if err == nil {
		err = writeAll(c.w, parts)
	}
	if err == nil {
		err = c.w.Close()
	}
	return err
}

func writeAll(w io.Writer, parts [][]byte) error {
	for _, p := range parts {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return nil
}
