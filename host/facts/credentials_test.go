package facts

import "testing"

func TestGitHubHost(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]string{
		"":                          "github.com",
		"https://github.com":        "github.com",
		"https://ghe.example:8443/": "ghe.example:8443",
		"http://github.com":         "",
		"https://":                  "",
		"https://a@github.com":      "",
		"https://github.com/path":   "",
		"github.com":                "",
		"https://h/?q":              "",
		"https://h\nx":              "",
		"https://*.example":         "",
		"https://*":                 "",
	} {
		got, err := gitHubHost(server)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, error %v", server, got, err)
		}
	}
}
