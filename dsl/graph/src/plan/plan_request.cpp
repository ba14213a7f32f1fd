// Requests for plans: a canonical graph with target and options, and locations beside it.
#include "kiln/graph/plan_request.h"

#include <algorithm>

#include "binary/canonical_located.h"
#include "binary/cbor_reader.h"
#include "ir/limits.h"
#include "kiln/dsl/cbor_writer.h"
#include "kiln/graph/binary.h"
#include "kiln/graph/verify.h"
#include "plan/plan_format.h"

namespace kiln::graph {
namespace {

using dsl::CborWriter;

constexpr size_t kFields = 4;

std::vector<std::byte> head() {
  std::vector<std::byte> out;
  CborWriter writer(out);
  writer.array(kFields);
  writer.text(kPlanRequestTag);
  return out;
}

template <class Items>
void write_locations(const Items& items, CborWriter& out) {
  const bool known = std::ranges::any_of(items, [](const auto& item) { return item.loc.file != 0; });
  out.array(known ? 3 * items.size() : 0);
  if (!known) return;
  for (const auto& item : items) {
    for (const uint32_t number : {item.loc.file, item.loc.line, item.loc.column}) out.bits(number);
  }
}

std::vector<std::byte> locations_of(const Graph& graph) {
  std::vector<std::byte> bytes;
  CborWriter out(bytes);
  out.array(3);
  out.text(kPlanDebugTag);
  out.array(graph.files.size());
  for (const std::string& file : graph.files) out.text(file);
  out.array(graph.bodies.size());
  for (const Body& body : graph.bodies) {
    out.array(2);
    write_locations(body.inputs, out);
    write_locations(body.nodes, out);
  }
  return bytes;
}

void forget_locations(Graph& graph) {
  graph.files.clear();
  for (Body& body : graph.bodies) {
    for (Input& input : body.inputs) input.loc = {};
    for (Node& node : body.nodes) node.loc = {};
  }
}

template <class Items>
void read_locations(CborReader& in, size_t files, Items& items) {
  const size_t count = in.array("locations");
  if (count == 0) return;
  if (count != 3 * items.size()) throw BadBytes{"the debug section is of another graph"};
  for (auto& item : items) {
    item.loc.file = static_cast<uint32_t>(in.bits("a location's file", files));
    for (uint32_t* number : {&item.loc.line, &item.loc.column}) {
      *number = static_cast<uint32_t>(in.bits("a location", kNone));
    }
  }
}

void add_locations(std::span<const std::byte> debug, Graph& graph) {
  CborReader in(debug);
  in.record("the debug section", 3);
  if (in.text("the tag", kMaxName) != kPlanDebugTag) throw BadBytes{"the debug section is of another version"};
  for (size_t left = in.array("files", kMaxNodes); left > 0; --left) {
    graph.files.push_back(in.text("a file's name", kMaxName));
  }
  if (in.array("bodies") != graph.bodies.size()) throw BadBytes{"the debug section is of another graph"};
  for (Body& body : graph.bodies) {
    in.record("a body", 2);
    read_locations(in, graph.files.size(), body.inputs);
    read_locations(in, graph.files.size(), body.nodes);
  }
  if (!in.at_end()) throw BadBytes{"there are bytes behind the debug section"};
}

PlanRequest read_request(std::span<const std::byte> canonical) {
  CborReader in(canonical);
  in.record("the request", kFields);
  if (in.text("the tag", kMaxName) != kPlanRequestTag) throw BadBytes{"it is of another version"};
  auto graph = decode(in.bytes("the graph"));
  if (!graph) throw BadBytes{graph.error().message};
  PlanRequest out{std::move(*graph), in.text("the target", kMaxName), {}};
  in.record("the options", 2);
  out.options.fuse = in.bits("the option fuse", 1) != 0;
  for (size_t left = in.array("the ops apart", kMaxNodes); left > 0; --left) {
    const auto op = static_cast<uint32_t>(in.bits("an op apart", kMaxNodes));
    if (!out.options.apart.empty() && op <= out.options.apart.back()) throw BadBytes{"the ops apart do not rise"};
    out.options.apart.push_back(op);
  }
  if (!in.at_end()) throw BadBytes{"there are bytes behind it"};
  return out;
}

}  // namespace

Result<RequestBytes> encode_plan_request(const PlanRequest& request) {
  if (auto sound = verify(request.graph); !sound) return sound.error();
  Graph graph = located_canonical(request.graph);
  RequestBytes out{head(), locations_of(graph)};
  forget_locations(graph);
  CborWriter writer(out.canonical);
  writer.bytes(encode(graph));
  writer.text(request.target);
  writer.array(2);
  writer.bits(request.options.fuse ? 1 : 0);
  writer.array(request.options.apart.size());
  for (const uint32_t op : request.options.apart) writer.bits(op);
  return out;
}

bool is_plan_request(std::span<const std::byte> canonical) {
  const std::vector<std::byte> magic = head();
  return canonical.size() >= magic.size() && std::ranges::equal(canonical.first(magic.size()), magic);
}

Result<PlanRequest> decode_plan_request(std::span<const std::byte> canonical, std::span<const std::byte> debug) {
  try {
    PlanRequest out = read_request(canonical);
    if (!debug.empty()) add_locations(debug, out.graph);
    return out;
  } catch (const BadBytes& bad) {
    return invalid_argument("request for a plan: " + bad.what);
  }
}

}  // namespace kiln::graph
