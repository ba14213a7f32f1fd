#include "kiln/client/graph_package.h"

#include <algorithm>
#include <atomic>
#include <string_view>

#include "core.h"
#include "kiln/dsl/cbor_writer.h"
#include "kiln/dsl/config.h"
#include "parallel.h"

namespace kiln::client {
namespace {

constexpr std::string_view kTag = "kiln-graph-1";
constexpr unsigned kBytes = 2, kText = 3, kArray = 4;  // CBOR's major types

// Reads what CborWriter writes. After the first thing that is wrong everything is empty.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  uint64_t head(unsigned major) {
    const uint64_t first = number(1);
    if (first >> 5 != major) return fail();
    const uint64_t low = first & 31;
    return low < 24 ? low : low <= 27 ? number(size_t{1} << (low - 24)) : fail();
  }
  std::span<const std::byte> string(unsigned major) {
    const uint64_t size = head(major);
    if (size > rest_.size()) return (void)fail(), std::span<const std::byte>();
    const auto out = rest_.first(size);
    rest_ = rest_.subspan(size);
    return out;
  }
  std::string_view text() {
    const auto bytes = string(kText);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // All of it was there, and nothing else.
  bool is_done() const { return ok_ && rest_.empty(); }
  bool ok() const { return ok_; }

 private:
  uint64_t number(size_t bytes) {
    if (bytes > rest_.size()) return fail();
    uint64_t out = 0;
    for (const std::byte byte : rest_.first(bytes)) out = out << 8 | static_cast<uint64_t>(byte);
    rest_ = rest_.subspan(bytes);
    return out;
  }
  uint64_t fail() {
    ok_ = false;
    rest_ = {};
    return 0;
  }

  std::span<const std::byte> rest_;
  bool ok_ = true;
};

// The daemon's workers compile beside each other.
constexpr size_t kAtOnce = 8;

Result<std::vector<Artifact>> code_of(Client& client, const graph::Plan& plan) {
  // A loaded graph has no better code behind it and none for other arrays. GPUs' memory is aligned, and their code
  // gains by it; of a CPU it is for any array.
  std::vector<dsl::Facts> facts(plan.kernels.size());
  if (dsl::target_family(plan.target) != "cpu") facts = graph::facts_of(plan);
  std::vector<Result<Artifact>> compiled(plan.kernels.size(), internal_error("not compiled"));
  std::atomic<size_t> next = 0;
  in_parallel(static_cast<int>(std::clamp<size_t>(compiled.size(), 1, kAtOnce)), [&](int, int) {
    for (size_t i = next++; i < compiled.size(); i = next++) {
      const graph::PlannedKernel& kernel = plan.kernels[i];
      compiled[i] = kernel.code
                        ? client.compile_custom(kernel.kernel, *kernel.code, {.target = plan.target})
                        : client.compile(kernel.kernel,
                                         {.target = plan.target, .constexprs = kernel.constexprs, .facts = facts[i]});
    }
  });
  std::vector<Artifact> out;
  for (Result<Artifact>& artifact : compiled) {
    if (!artifact) return artifact.error();
    out.push_back(std::move(*artifact));
  }
  return out;
}

}  // namespace

Result<std::string> write_package(Client& client, const graph::Plan& given) {
  const std::vector<std::byte> encoded = graph::encode_plan(given);
  // With the ops of the kernels, which a handle does not need.
  auto plan = graph::decode_plan(encoded);
  if (!plan) return plan.error();
  std::vector<Artifact> kernels;
  if (plan->target != kInterpreter) {
    auto compiled = code_of(client, *plan);
    if (!compiled) return compiled.error();
    kernels = std::move(*compiled);
  }
  std::vector<std::byte> out;
  dsl::CborWriter writer(out);
  writer.array(3);
  writer.text(kTag);
  writer.bytes(encoded);
  writer.array(2 * kernels.size());
  for (const Artifact& kernel : kernels) {
    writer.text(abi::write_metadata(kernel.metadata));
    writer.bytes(kernel.code);
  }
  return std::string(reinterpret_cast<const char*>(out.data()), out.size());
}

Result<CompiledGraph> read_package(std::span<const std::byte> bytes) {
  const auto bad = [](const std::string& what) { return invalid_argument("no package of a graph: " + what); };
  Reader in(bytes);
  if (in.head(kArray) != 3 || in.text() != kTag) return bad("it does not begin like one of this version");
  const auto encoded = in.string(kBytes);
  const uint64_t parts = in.head(kArray);
  std::vector<Artifact> kernels;
  for (uint64_t i = 0; in.ok() && i < parts; i += 2) {
    auto metadata = abi::read_metadata(in.text());
    if (!in.ok()) break;
    if (!metadata) return bad(metadata.error().message);
    const auto code = in.string(kBytes);
    kernels.push_back({std::move(*metadata), {code.begin(), code.end()}});
  }
  if (!in.is_done() || parts % 2 != 0) return bad("it is cut short, or has bytes behind it");
  auto plan = graph::decode_plan(encoded);
  if (!plan) return bad(plan.error().message);
  return load_plan(*plan, kernels);
}

}  // namespace kiln::client
