package tds

import (
	"errors"
	"slices"
)

// incoming is a message, or why there is none.
type incoming struct {
	kind byte
	body []byte
	err  error
}

// loop answers requests until the client goes.
func (c *conn) loop() {
	messages := make(chan incoming)
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			kind, body, err := readMessage(c.wire)
			if kind == packetAttention && err == nil {
				c.server.note(func() { c.server.attentions++ })
			}
			select {
			case messages <- incoming{kind, body, err}:
			case <-stop:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	defer func() {
		close(stop)
		_ = c.raw.Close()
		<-ended
	}()
	for in := range messages {
		if in.err != nil || c.reply(in, messages) != nil {
			return
		}
	}
}

// errGone ends a connection.
var errGone = errors.New("the connection is over")

func (c *conn) reply(in incoming, messages <-chan incoming) error {
	m := newMessage(c.wire, packetReply, c.packet)
	if in.kind == packetAttention { // it came too late: there was nothing to cancel any more
		_, _ = m.Write(doneToken(tokenDone, doneAttn, 0))
		return m.end()
	}
	request, err := parseRequest(in.kind, in.body)
	if err != nil {
		c.server.fault(err)
		return err
	}
	c.server.note(func() { c.server.requests = append(c.server.requests, request) })
	answer := c.server.answer(request)
	if request.Kind == Transaction && answer.Error == nil && !answer.Stall && !answer.Cut {
		_, _ = m.Write(c.transact(request.SQL))
		_, _ = m.Write(doneToken(tokenDone, 0, 0))
		return m.end()
	}
	return c.play(request, &answer, m, messages)
}

// transact starts or ends a transaction and tells the client so.
func (c *conn) transact(action string) []byte {
	var body []byte
	if action == "BEGIN" {
		c.last++
		c.transaction = c.last
		body = append(u64([]byte{envBegin, 8}, c.transaction), 0)
	} else {
		kind := byte(envCommit)
		if action == "ROLLBACK" {
			kind = envRollback
		}
		body = u64([]byte{kind, 0, 8}, c.transaction)
		c.transaction = 0
	}
	return append(u16([]byte{tokenEnvChange}, len(body)), body...)
}

// play sends the answer.
func (c *conn) play(request Request, a *Answer, m *message, messages <-chan incoming) error {
	rows, cancelled, err := c.sendRows(a, m, messages)
	if a.Reached != nil {
		_ = m.flush()
		close(a.Reached)
	}
	switch {
	case err != nil:
		return err
	case cancelled:
		return c.cancelled(m)
	case a.Stall:
		_ = m.flush()
		return c.stall(a, m, messages)
	case a.Cut:
		_ = m.flush()
		return errGone
	}
	status := 0
	if a.Error != nil {
		_, _ = m.Write(a.Error.token())
		status |= doneError
	} else if a.Columns != nil {
		status |= doneCount
	}
	if request.Kind != Executed {
		_, _ = m.Write(doneToken(tokenDone, status, rows))
		return m.end()
	}
	_, _ = m.Write(doneToken(tokenDoneInProc, status|doneMore, rows))
	_, _ = m.Write(u32([]byte{tokenReturnStatus}, 0))
	_, _ = m.Write(doneToken(tokenDoneProc, status&doneError, 0))
	return m.end()
}

// sendRows sends the result's rows, unless the client cancels in between.
func (c *conn) sendRows(a *Answer, m *message, messages <-chan incoming) (rows int64, cancelled bool, err error) {
	if a.Columns == nil {
		return 0, false, nil
	}
	_, _ = m.Write(metadata(a.Columns))
	send := func(row []any) bool {
		if err = a.writeRow(m, row); err != nil {
			if m.err == nil {
				c.server.fault(err)
			}
			return false
		}
		if rows++; rows%attentionEvery == 0 {
			cancelled, err = c.look(messages)
		}
		return err == nil && !cancelled
	}
	for row := range slices.Values(a.Rows) {
		if !send(row) {
			return rows, cancelled, err
		}
	}
	if a.More != nil {
		a.More(send)
	}
	return rows, cancelled, err
}

// look sees whether the client cancelled or went.
func (c *conn) look(messages <-chan incoming) (cancelled bool, err error) {
	select {
	case in := <-messages:
		return in.kind == packetAttention, in.err
	default:
		return false, nil
	}
}

// stall waits for the client to cancel or go.
func (c *conn) stall(a *Answer, m *message, messages <-chan incoming) error {
	for in := range messages {
		if in.err != nil {
			return in.err
		}
		if in.kind == packetAttention && !a.Deaf {
			return c.cancelled(m)
		}
	}
	return errGone
}

// cancelled acknowledges a request to cancel.
func (c *conn) cancelled(m *message) error {
	_, _ = m.Write(doneToken(tokenDone, doneAttn, 0))
	return m.end()
}
