#include "device_case.h"

#include "kiln/dsl/expr_json.h"
#include "kiln/dsl/text.h"

namespace kiln::test {

dsl::Kernel kernel_of(const std::string& params, const std::string& grid) {
  auto kernel =
      dsl::parse("kernel k(" + params + ") {\n  grid " + grid + "\n  %pid = program_id {axis = 0}\n}\n", "k.kiln");
  if (!kernel) ADD_FAILURE() << kernel.error().message;
  return kernel ? *kernel : dsl::Kernel();
}

Artifact artifact_of(const dsl::Kernel& kernel, const nlohmann::json& more) {
  Artifact out;
  nlohmann::json& metadata = out.metadata;
  metadata = {{"kernel", kernel.name}, {"target", "cuda:sm_90a"}, {"emit", "ptx"}, {"entry", "kiln_entry"}};
  const abi::ParamLayout layout = abi::lay_out_params(kernel);
  metadata["params"] = nlohmann::json::array();
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    metadata["params"].push_back({{"name", kernel.params[i].name},
                                  {"type", to_string(kernel.params[i].type, kernel.expr_names())},
                                  {"offset", layout.slots[i].offset}});
  }
  for (const dsl::Expr& extent : kernel.grid) metadata["grid_expr"].push_back(dsl::expr_to_json(extent));
  metadata["device"] = {{"threads", 128}, {"shared_bytes", 0}};
  metadata.merge_patch(more);
  std::string code = ".entry kiln_entry .entry first_stage //";
  for (char c : code) out.code.push_back(static_cast<std::byte>(c));
  return out;
}

Result<std::shared_ptr<const client::Variant>> load(const dsl::Kernel& kernel, const Artifact& artifact) {
  return client::load_variant(kernel, artifact, {});
}

std::shared_ptr<const client::Variant> loaded(const dsl::Kernel& kernel, const Artifact& artifact) {
  auto variant = load(kernel, artifact);
  if (!variant) ADD_FAILURE() << variant.error().message;
  return variant ? *variant : nullptr;
}

Result<void> launch(const client::Variant& variant, const dsl::Kernel& kernel,
                    const std::vector<client::Argument>& arguments, const client::LaunchOptions& options) {
  return client::launch_variant(variant, kernel, abi::lay_out_params(kernel), arguments, options);
}

Device open_device(int ordinal) {
  auto device = Device::open("cuda", ordinal);
  if (!device) ADD_FAILURE() << device.error().message;
  return std::move(*device);
}

Stream new_stream(const Device& device) {
  auto stream = Stream::create(device);
  if (!stream) ADD_FAILURE() << stream.error().message;
  return std::move(*stream);
}

}  // namespace kiln::test
