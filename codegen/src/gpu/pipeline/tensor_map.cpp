#include "gpu/pipeline/tensor_map.h"

#include <nlohmann/json.hpp>

#include "kiln/dsl/expr_json.h"

namespace kiln::codegen::gpu {

nlohmann::json to_json(const TensorMap& map) {
  nlohmann::json out = {{"param", map.param},
                        {"offset", dsl::expr_to_json(map.offset)},
                        {"type", dsl::info(map.element).name},
                        {"rank", map.dims.size()},
                        {"dims", nlohmann::json::array()},
                        {"strides_bytes", nlohmann::json::array()},
                        {"box", map.box},
                        {"swizzle", map.swizzle_bytes == 0 ? "none" : std::to_string(map.swizzle_bytes)}};
  for (const dsl::Expr& extent : map.dims) out["dims"].push_back(dsl::expr_to_json(extent));
  for (const dsl::Expr& stride : map.strides_bytes) out["strides_bytes"].push_back(dsl::expr_to_json(stride));
  if (map.fills_nan) out["fill"] = "nan";
  return out;
}

}  // namespace kiln::codegen::gpu
