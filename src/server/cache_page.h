#pragma once

#include <string>

#include "engine/cache_report.h"

namespace yeoul {

// /debug/cache: what is known of prompts, as a tree for people and as JSON for programs
// (docs/api.md).
std::string draw_cache(const CacheReport& report);
std::string format_cache(const CacheReport& report);

}  // namespace yeoul
