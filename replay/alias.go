package replay

// An alias says which field of an entry a name in a JSON log stands for. Of
// several names of one field in a line, the one of the lowest rank counts.
type alias struct {
	to   field
	rank uint8
}

// Fields that an entry holds in another form.
const (
	aliasTime    = numFields
	aliasRequest = numFields + 1
)

// known lists the names of each field from the most to the least telling, as
// nginx, Caddy, Traefik, Envoy, Apache and common log libraries write them.
var known = [...][]string{
	fieldIP: {
		"ip", "client_ip", "request.client_ip", "remote_ip", "request.remote_ip", "remote_addr",
		"clientip", "clientIP", "client_addr", "ClientHost", "remoteIp", "httpRequest.remoteIp", "remoteAddr",
		"ClientAddr", "downstream_remote_address", "remote_host", "request.remote_addr", "client.ip",
	},
	fieldUser: {
		"user", "remote_user", "ClientUsername", "user_id", "username", "auth", "user.name",
	},
	fieldMethod: {
		"method", "request_method", "request.method", "RequestMethod", "http_method", "httpRequest.requestMethod",
		"verb", "http.request.method",
	},
	fieldPath: {
		"path", "uri", "request_uri", "request.uri", "url", "request_path", "RequestPath", "request.path",
		"request.url", "httpRequest.requestUrl", "url.path", "url.original",
	},
	fieldStatus: {
		"status", "status_code", "statusCode", "response_code", "response", "DownstreamStatus", "httpRequest.status",
		"http.response.status_code", "code",
	},
	fieldReferer: {
		"referer", "referrer", "http_referer", "http_referrer", "request.headers.Referer", "request_Referer",
		"httpRequest.referer", "http.request.referrer",
	},
	fieldAgent: {
		"user_agent", "http_user_agent", "agent", "userAgent", "useragent", "request.headers.User-Agent",
		"request_User-Agent", "httpRequest.userAgent", "user_agent.original", "user-agent",
	},
	fieldHost: {
		"host", "http_host", "request.host", "RequestHost", "vhost", "server_name", "authority",
	},
	fieldTenant: {"tenant", "tenant_id", "tenantId"},
	aliasTime: {
		"time", "ts", "timestamp", "@timestamp", "time_iso8601", "time_local", "msec", "datetime", "date",
		"start_time", "StartUTC", "StartLocal",
	},
	aliasRequest: {"request", "request_line", "message_request"},
}

// fieldNames are the attributes that a log's own names may be mapped to.
var fieldNames = map[string]field{
	"ip": fieldIP, "user": fieldUser, "method": fieldMethod, "path": fieldPath, "status": fieldStatus,
	"header:Referer": fieldReferer, "user_agent": fieldAgent, "header:User-Agent": fieldAgent, "host": fieldHost,
	"tenant": fieldTenant, "time": aliasTime, "request": aliasRequest,
}

// aliases returns the meaning of every name, the caller's own first.
func aliases(own map[string]string) map[string]alias {
	all := map[string]alias{}
	for to, names := range known {
		for i, name := range names {
			all[name] = alias{field(to), uint8(i + 2)}
		}
	}
	for name, attribute := range own {
		if to, ok := fieldNames[attribute]; ok {
			all[name] = alias{to, 1}
		}
	}
	return all
}
