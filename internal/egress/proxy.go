package egress

// proxyVariables name the variables for a proxy, in upper and lower case, with the proxy's URL
// scheme.
var proxyVariables = [...]struct{ upper, lower, scheme string }{
	{"HTTP_PROXY", "http_proxy", "http"},
	{"HTTPS_PROXY", "https_proxy", "http"},
	{"ALL_PROXY", "all_proxy", "socks5h"}, // with the h, the proxy looks up names, not the program
}

// NoProxy is what programs reach without a proxy: the command's own machine.
const NoProxy = "localhost,127.0.0.1,::1"

// ProxyVariables returns the variables, "name=value", by which programs find a proxy for HTTP and
// SOCKS 5. at is the proxy's address, perhaps with a user and a password before it.
func ProxyVariables(at string) (list []string) {
	for _, v := range proxyVariables {
		url := v.scheme + "://" + at
		list = append(list, v.upper+"="+url, v.lower+"="+url)
	}
	// The last variable makes Node's own fetch read the others.
	return append(list, "NO_PROXY="+NoProxy, "no_proxy="+NoProxy, "NODE_USE_ENV_PROXY=1")
}
