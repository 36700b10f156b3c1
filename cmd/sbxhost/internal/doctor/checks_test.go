package doctor

import (
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/cmd/internal/inforce"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
)

// A relative ~/.cache is none: sessions would refuse it.
func TestDoctorCacheDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		environ []string
		missing bool
		found   string
	}{
		{nil, true, "neither XDG_CACHE_HOME nor HOME"},
		{[]string{"HOME=here", "XDG_CACHE_HOME=there"}, true, "neither XDG_CACHE_HOME nor HOME"},
		{[]string{"HOME=" + dir}, false, dir},
		{[]string{"XDG_CACHE_HOME=" + dir}, false, dir},
	} {
		f := cacheDir(&cli.App{Caller: inforce.Caller{Environ: c.environ}})
		if (f.State == stateMissing) != c.missing || !strings.Contains(f.Found, c.found) {
			t.Errorf("%q: %+v", c.environ, f)
		}
	}
}
