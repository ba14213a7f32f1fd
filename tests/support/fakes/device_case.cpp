#include "device_case.h"

#include "kiln/abi/metadata_json.h"
#include "kiln/dsl/text.h"

namespace kiln::test {

dsl::Kernel kernel_of(const std::string& params, const std::string& grid) {
  auto kernel =
      dsl::parse("kernel k(" + params + ") {\n  grid " + grid + "\n  %pid = program_id {axis = 0}\n}\n", "k.kiln");
  if (!kernel) ADD_FAILURE() << kernel.error().message;
  return kernel ? *kernel : dsl::Kernel();
}

Result<Artifact> read_artifact_of(const dsl::Kernel& kernel, const nlohmann::json& more) {
  abi::Metadata sound;
  sound.kernel = kernel.name;
  sound.target = "cuda:sm_90a";
  sound.emit = "ptx";
  sound.entry = "kiln_entry";
  const abi::ParamLayout layout = abi::lay_out_params(kernel);
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    sound.params.push_back(
        {kernel.params[i].name, to_string(kernel.params[i].type, kernel.expr_names()), layout.slots[i].offset});
  }
  sound.grid_expr.assign(kernel.grid.begin(), kernel.grid.end());
  abi::Device& device = sound.device.emplace();
  device.threads = 128;
  device.shared_bytes = 0;
  nlohmann::json changed = abi::to_json(sound);
  changed.merge_patch(more);
  auto metadata = abi::metadata_of(changed);
  if (!metadata) return metadata.error();
  Artifact out{std::move(*metadata), {}};
  for (char c : std::string(".entry kiln_entry .entry first_stage //")) out.code.push_back(static_cast<std::byte>(c));
  return out;
}

Artifact artifact_of(const dsl::Kernel& kernel, const nlohmann::json& more) {
  auto out = read_artifact_of(kernel, more);
  if (!out) ADD_FAILURE() << out.error().message;
  return out ? std::move(*out) : Artifact();
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
