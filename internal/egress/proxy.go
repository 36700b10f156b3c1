package egress

import "strings"

// NoProxy is what programs reach without a proxy: the command's own machine.
const NoProxy = "localhost,127.0.0.1,::1"

// ProxyVariables returns the variables, "name=value", by which programs find a proxy for HTTP, in
// upper and lower case. at is the proxy's address, perhaps with a user and a password before it.
func ProxyVariables(at string) (list []string) {
	for _, name := range [...]string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		list = append(list, name+"=http://"+at, strings.ToLower(name)+"=http://"+at)
	}
	// The last variable makes Node's own fetch read the others.
	return append(list, "NO_PROXY="+NoProxy, "no_proxy="+NoProxy, "NODE_USE_ENV_PROXY=1")
}
