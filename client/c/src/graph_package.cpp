#include "graph_package.h"

#include <string_view>

#include "arrays.h"
#include "kiln/dsl/cbor_writer.h"
#include "kiln/dsl/config.h"

namespace kiln::c {
namespace {

constexpr std::string_view kTag = "kiln-graph-1";
constexpr unsigned kBytes = 2, kText = 3, kArray = 4;  // CBOR's major types
constexpr const char* kInterpreter = "interp";

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

}  // namespace

Result<std::string> write_package(Client& client, const CompiledGraph& graph) {
  const std::vector<std::byte> encoded = graph::encode_plan(graph.plan());
  // With the ops of the kernels, which a handle does not need.
  auto plan = graph::decode_plan(encoded);
  if (!plan) return plan.error();
  const bool has_code = plan->target != kInterpreter;
  std::vector<std::byte> out;
  dsl::CborWriter writer(out);
  writer.array(3);
  writer.text(kTag);
  writer.bytes(encoded);
  writer.array(has_code ? 2 * plan->kernels.size() : 0);
  // A loaded graph has no better code behind it and none for other arrays. GPUs' memory is aligned, and their code
  // gains by it; of a CPU it is for any array.
  std::vector<dsl::Facts> facts(plan->kernels.size());
  if (device_of(dsl::target_family(plan->target)) != KILN_HOST) facts = graph::facts_of(*plan);
  for (size_t i = 0; has_code && i < plan->kernels.size(); ++i) {
    const graph::PlannedKernel& kernel = plan->kernels[i];
    auto artifact =
        client.compile(kernel.kernel, {.target = plan->target, .constexprs = kernel.constexprs, .facts = facts[i]});
    if (!artifact) return artifact.error();
    writer.text(abi::write_metadata(artifact->metadata));
    writer.bytes(artifact->code);
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
  return client::load_plan(*plan, kernels);
}

}  // namespace kiln::c
