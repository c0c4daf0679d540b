#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http.h"

namespace yeoul {

// Equal, in a time that depends on the length of `given` only.
bool equal_in_constant_time(std::string_view secret, std::string_view given);

// Does the request carry one of the keys, as "Authorization: Bearer KEY" or "x-api-key: KEY"?
// Every key is compared, whichever matches. True when there are no keys.
bool is_authorized(const std::vector<std::string>& keys, const HttpRequest& request);

}  // namespace yeoul
