package broker

import (
	"errors"
	"fmt"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// compressionType is the topic config that names the codec of stored batches, and the cluster default of the same name.
const compressionType = "compression.type"

// storedCodec is the codec that batches of a topic must have, and how large their records may be without one; asked is false where the producer chooses.
func storedCodec(img *cluster.Image, t *cluster.Topic) (codec record.Codec, bound int, asked bool) {
	if _, set := t.Configs.Get(compressionType); !set {
		if _, set = img.Configs(cluster.ConfigResource{Kind: cluster.ConfigClusterDefault}).Get(compressionType); !set {
			return record.CodecNone, 0, false
		}
	}
	cfg := img.TopicConfig(t)
	codec, asked = cfg.Compression.Codec()
	bound = maxDecompressed
	if codec == record.CodecNone {
		bound = int(min(maxDecompressed, cfg.MaxMessageBytes)) // what is larger cannot be stored
	}
	return codec, bound, asked
}

// recompress gives a batch the codec that its topic asks for. It runs on the caller's goroutine, and costs nothing where the producer chooses.
func (b *Broker) recompress(t *cluster.Topic, req *ProduceRequest) *cluster.Error {
	codec, bound, asked := storedCodec(b.Image(), t)
	if !asked {
		return nil
	}
	batch, err := record.Parse(req.Batch)
	if err == nil && batch.Codec() == codec {
		return nil
	}
	if err == nil {
		batch, err = batch.Recompress(codec, bound, b.options.Memory)
	}
	switch {
	case errors.Is(err, record.ErrTooLarge):
		return cluster.Refuse(cluster.CodeTooLarge, fmt.Sprintf("the batch cannot be stored as %s: %v", codec, err))
	case err != nil:
		return cluster.Refuse(cluster.CodeCorrupt, fmt.Sprintf("the batch cannot be stored as %s: %v", codec, err))
	}
	if req.Release != nil {
		req.Release()
	}
	req.Batch = batch.Bytes()
	req.Release = b.options.Memory.Hold(len(req.Batch)) // the partition calls it, whatever becomes of the batch
	return nil
}

// maxDecompressed bounds a batch that is recompressed. Doors bound it too, when they check the records.
const maxDecompressed = 256 << 20
