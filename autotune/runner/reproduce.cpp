#include "reproduce.h"

#include <cstdio>

#include "kiln/autotune/runner_protocol.h"
#include "kiln/dsl/binary.h"
#include "kiln/wire/printable.h"
#include "session.h"

namespace kiln::autotune {
namespace {

using nlohmann::json;

// What the second candidate's outputs are beside the first's.
Result<CandidateStatus> run_both(MeasuredDevice& device, const std::string& directory) {
  auto kernel_bytes = read_file(directory + "/kernel.bin");
  if (!kernel_bytes) return kernel_bytes.error();
  auto kernel = dsl::decode_kernel(*kernel_bytes);
  if (!kernel) return kernel.error();
  auto text = read_file(directory + "/workload.json");
  if (!text) return text.error();
  const auto* begin = reinterpret_cast<const char*>(text->data());
  auto workload = workload_from_json(json::parse(begin, begin + text->size(), nullptr, false));
  if (!workload) return workload.error();
  Session session(device);
  if (auto done = session.begin(std::move(*kernel), *workload, Cache::kHot); !done) return done.error();
  CandidateStatus last;
  for (const char* name : {"expected", "actual"}) {
    auto artifact = read_artifact(directory + "/" + name);
    if (!artifact) return artifact.error();
    auto outcome = session.load(0, *artifact);
    if (!outcome) return outcome.error();
    last = outcome->status;
    session.settle();
    if (const std::string text = session.difference(0); !text.empty()) last = {Failure::kWrongResult, text};
    if (last.failure != Failure::kNone) break;
  }
  return last;
}

}  // namespace

int reproduce(MeasuredDevice& device, const std::string& directory) {
  auto status = run_both(device, directory);
  if (!status) {
    std::fprintf(stderr, "kiln-runner: %s\n", wire::printable_lines(status.error().message).c_str());
    return 2;
  }
  if (status->failure == Failure::kNone) {
    std::puts("the results agree");
    return 0;
  }
  std::printf("%s: %s\n", to_string(status->failure), wire::printable_lines(status->message).c_str());
  return 1;
}

}  // namespace kiln::autotune
