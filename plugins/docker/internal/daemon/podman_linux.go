package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/moby/moby/client"

	"github.com/sbxhost/sbxhost/shared"
)

// podmanInfoMax bounds an answer, which is usually a few kilobytes.
const podmanInfoMax = 1 << 20

// askPodman asks Podman for its own facts.
func askPodman(ctx context.Context, c *client.Client, facts *Facts) error {
	raw, err := podmanInfo(ctx, c)
	if err != nil {
		return &shared.Error{Kind: shared.ErrUnavailable, Message: "Podman's own API: " + FirstLine(err.Error())}
	}
	return facts.takePodman(raw)
}

// podmanInfo asks in Podman's own API, which Docker's client does not know.
func podmanInfo(ctx context.Context, c *client.Client) ([]byte, error) {
	dial := c.Dialer()
	own := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://podman/v4.0.0/libpod/info", nil)
	if err != nil {
		return nil, err
	}
	answer, err := own.Do(req)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", answer.Status)
	}
	return io.ReadAll(io.LimitReader(answer.Body, podmanInfoMax))
}
