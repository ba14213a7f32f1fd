// Who chooses configs, as kiln.h says it.
#pragma once

#include <string>

#include "kiln.h"
#include "kiln/client/client.h"

namespace kiln::c {

inline Result<client::Mode> mode_of(int32_t mode) {
  if (mode == KILN_MODE_DEFAULT) return client::Mode::kDefault;
  if (mode == KILN_MODE_AUTOTUNE) return client::Mode::kAutotune;
  if (mode == KILN_MODE_MAX) return client::Mode::kMax;
  if (mode == KILN_MODE_FIXED) return client::Mode::kFixed;
  return invalid_argument("`mode` is " + std::to_string(mode) + ", which is no KILN_MODE");
}

}  // namespace kiln::c
