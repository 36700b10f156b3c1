package egress

// proxyVariables name a proxy by the URL schemes that follow, in upper and in lower case.
var proxyVariables = [...]struct{ upper, lower, scheme string }{
	{"HTTP_PROXY", "http_proxy", "http"},
	{"HTTPS_PROXY", "https_proxy", "http"},
	{"ALL_PROXY", "all_proxy", "socks5h"}, // with the h, names are not looked up before they are asked for
}

// NoProxy is what is reached without a proxy: the command's own machine.
const NoProxy = "localhost,127.0.0.1,::1"

// ProxyVariables are the variables of an environment, "name=value", by which programs find a
// proxy for HTTP and SOCKS 5. At is its address, perhaps with a user and a password before it.
func ProxyVariables(at string) (list []string) {
	for _, v := range proxyVariables {
		url := v.scheme + "://" + at
		list = append(list, v.upper+"="+url, v.lower+"="+url)
	}
	// The last one has Node's own fetch look at the others.
	return append(list, "NO_PROXY="+NoProxy, "no_proxy="+NoProxy, "NODE_USE_ENV_PROXY=1")
}
