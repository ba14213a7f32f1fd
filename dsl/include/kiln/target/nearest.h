// The names that one may have been meant for.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::target {

// Of `all` those with the fewest letters to change, to add or to leave out; none where these are more than two.
std::vector<std::string_view> nearest_names(std::string_view name, std::span<const std::string_view> all);

// "a, b and c"
std::string listed(std::span<const std::string_view> names);

}  // namespace kiln::target
