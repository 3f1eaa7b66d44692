package client

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Client is a connection to a cluster: a producer, administrative calls, and the maker of Consumers. Any goroutine may use it.
type Client struct {
	cfg      config
	conns    *connPool
	meta     *metadata
	producer *producer

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu        sync.Mutex // guards consumers and closed
	consumers map[*Consumer]struct{}
	closed    bool
}

// New returns a client. It does not connect yet: the first call does.
func New(opts ...Option) (*Client, error) {
	cfg := defaultConfig()
	for _, o := range opts {
		o(&cfg)
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, consumers: map[*Consumer]struct{}{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.conns = newConnPool(&c.cfg)
	c.meta = newMetadata()
	c.producer = newProducer(c)
	c.wg.Go(c.watchTimeouts)
	c.wg.Go(c.watchMetadata)
	return c, nil
}

// Close stops everything without flushing: records that wait fail with ErrClosed, consumers leave their groups. Call Flush before it. It
// returns when all goroutines of the client have ended.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	open := make([]*Consumer, 0, len(c.consumers))
	for consumer := range c.consumers {
		open = append(open, consumer)
	}
	c.mu.Unlock()
	var errs []error
	for _, consumer := range open {
		errs = append(errs, consumer.Close())
	}
	c.producer.close()
	c.cancel()
	c.wg.Wait()
	errs = append(errs, c.conns.close())
	return errors.Join(errs...)
}

// Produce queues a record and returns; promise, which may be nil, is called once with the outcome, from a goroutine of the client or before
// Produce returns. For one partition promises come in the order of Produce. It blocks while the topic is looked up for the first time and
// while WithMaxBuffered is reached; ctx bounds that.
func (c *Client) Produce(ctx context.Context, r *Record, promise func(*Record, error)) {
	if promise == nil {
		promise = func(*Record, error) {}
	}
	c.producer.produce(ctx, r, promise)
}

// ProduceSync produces records without linger and waits for all of them. The error joins what went wrong.
func (c *Client) ProduceSync(ctx context.Context, records ...*Record) error {
	var wg sync.WaitGroup
	var mu sync.Mutex // guards errs
	var errs []error
	c.producer.hurry(1)
	defer c.producer.hurry(-1)
	wg.Add(len(records))
	for _, r := range records {
		c.producer.produce(ctx, r, func(_ *Record, err error) {
			if err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
			wg.Done()
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Flush sends what waits without linger and returns when no record waits any more, or with ctx's error.
func (c *Client) Flush(ctx context.Context) error { return c.producer.flush(ctx) }

// ProduceBatch sends one whole record batch v2 as it is, for programs that build batches themselves. done is called once with the offset of
// its first record. Retries send the same bytes, so they are de-duplicated only if the batch carries a producer id and sequence. The bytes
// must not change until done is called. In-flight bounds and order are those of Produce.
func (c *Client) ProduceBatch(ctx context.Context, topic string, partition int32, batch []byte, done func(baseOffset int64, err error)) {
	c.producer.produceBatch(ctx, topic, partition, batch, done)
}

// checkInterval is how often the producer's timeouts are looked at.
const checkInterval = 100 * time.Millisecond

// watchTimeouts is the goroutine that fails what has waited too long.
func (c *Client) watchTimeouts() {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
			c.producer.checkTimeouts(time.Now())
		}
	}
}

// watchMetadata is the goroutine that refreshes metadata when it is asked for or due.
func (c *Client) watchMetadata() {
	timer := time.NewTimer(c.cfg.metadataMaxAge)
	defer timer.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-c.meta.wanted:
		case <-timer.C:
		}
		wait := c.cfg.metadataMaxAge
		if err := c.refreshAll(); err != nil {
			c.cfg.log.Info("client: metadata refresh failed", "error", err)
			wait = c.cfg.retryBackoff
		}
		c.metadataChanged()
		// Whoever still sees nobody leading asks again at once; do not answer that with a storm of questions.
		pause := time.NewTimer(c.cfg.retryBackoff)
		select {
		case <-pause.C:
		case <-c.ctx.Done():
			pause.Stop()
			return
		}
		timer.Reset(wait)
	}
}

// metadataChanged lets producer and consumers follow leaders.
func (c *Client) metadataChanged() {
	c.producer.followLeaders()
	c.mu.Lock()
	defer c.mu.Unlock()
	for consumer := range c.consumers {
		consumer.nudge()
	}
}
