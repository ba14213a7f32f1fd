// The kernel of tests whose runner has no device: what fake_runner.cpp does is in its config, `us` its time and
// `behave` how it fails.
#pragma once

#include <string>
#include <vector>

namespace kiln::autotune {

// With these spaces, such as "us = [40, 100]". It stores the sum of both.
inline std::string says_how_long_text(const std::vector<std::string>& spaces) {
  std::string declared;
  for (const std::string& space : spaces) declared += "  space " + space + "\n";
  return R"(kernel says_how_long(%x: ptr<f32>, %n: i32) {
  constexpr us = 100
  constexpr behave = 0
)" + declared +
         R"(  array x = n
  grid [1, 1, 1]

  %time = constant {value = us, type = i32} : i32
  %how = constant {value = behave, type = i32} : i32
  %sum = add %time, %how : i32
  %value = cast %sum {to = f32} : f32
  store %x, %value
}
)";
}

}  // namespace kiln::autotune
