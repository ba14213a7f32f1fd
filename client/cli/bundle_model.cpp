// `kiln bundle`, and `kiln run` of what it wrote.
#include <cstdio>

#include "graph_run.h"
#include "kiln/client/graph_package.h"
#include "kiln/dsl/config.h"
#include "kiln/wire/files.h"
#include "kiln/wire/printable.h"
#include "kiln/wire/secret.h"
#include "model_bundle.h"

namespace kiln::cli {
namespace {

Result<std::string> key_of(const std::string& file) {
  return file.empty() ? Result<std::string>(std::string()) : wire::read_key(file);
}

// The first code that this machine can run; none: why, a line each.
std::optional<client::CompiledGraph> code_for(const BundledModel& model, const std::string& target, std::string& why) {
  for (const BundledModel::Code& code : model.codes) {
    if (code.target != target && dsl::target_family(code.target) != target) continue;
    auto loaded = client::read_package(code.package);
    if (loaded) return std::move(*loaded);
    why += (why.empty() ? "" : "; ") + loaded.error().message;
  }
  if (why.empty()) why = "there is none for " + target;
  return std::nullopt;
}

}  // namespace

Result<void> bundle_model(const ModelBundleFlags& flags) {
  auto key = key_of(flags.key_file);
  if (!key) return key.error();
  if (auto writable = wire::check_writable(flags.output); !writable) return writable;
  auto program = load_program(flags.file);
  if (!program) return program.error();
  client::ClientOptions options;
  options.connect.client_name = "kiln bundle";
  client::Client client(std::move(options));
  std::vector<BundledCode> codes;
  for (const std::string& target : flags.targets) {
    auto plan = client.plan(program->graph, {.target = target, .deadline_ms = flags.deadline_ms});
    if (!plan) return plan.error();
    auto package = client::write_package(client, *plan);
    if (!package) {
      return error(package.error().code,
                   "graph `" + plan->name + "`, target `" + target + "`: " + package.error().message);
    }
    std::printf("%s: %zu launches, %zu kernels, %zu bytes\n", wire::printable(target).c_str(), plan->launches.size(),
                plan->kernels.size(), package->size());
    codes.push_back({target, std::move(*package)});
  }
  return write_model_bundle(flags.output, *program, codes, flags.weights == "beside" ? flags.file : "", *key);
}

Result<void> run_bundle(const RunFlags& flags) {
  const std::string& file = flags.kernel.file;
  if (flags.key_file.empty() && !flags.trust) {
    return invalid_argument(file +
                            ": whoever wrote it has code executed here; --key FILE takes only what is authenticated by "
                            "that key, --trust anything");
  }
  auto graph_flags = graph_run_flags(flags);
  if (!graph_flags) return graph_flags.error();
  auto key = key_of(flags.key_file);
  if (!key) return key.error();
  auto model = read_model_bundle(file, *key);
  if (!model) return model.error();
  std::string why;
  const auto code = code_for(*model, flags.kernel.target, why);
  if (code) return run_program(model->program, std::move(*graph_flags), &*code);
  std::fprintf(stderr, "kiln: %s has no code that runs here (%s); it is compiled\n", wire::printable(file).c_str(),
               wire::printable(why).c_str());
  return run_program(model->program, std::move(*graph_flags), nullptr);
}

}  // namespace kiln::cli
