// What the host encodes at a launch for the bulk engine (docs/reference/artifact.md, "Tensor maps").
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "kiln/dsl/expr.h"
#include "kiln/dsl/types.h"

namespace kiln::codegen::gpu {

struct TensorMap {
  uint32_t param = 0;
  dsl::Expr offset;
  dsl::ElementType element = dsl::ElementType::kF32;
  std::vector<dsl::Expr> dims, strides_bytes;  // innermost first; strides of all but the innermost
  std::vector<int64_t> box;
  int swizzle_bytes = 0;
  bool fills_nan = false;
};

// As an artifact's metadata have it.
nlohmann::json to_json(const TensorMap& map);

}  // namespace kiln::codegen::gpu
