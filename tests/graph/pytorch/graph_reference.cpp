// graph_reference: what scripts that compare graphs with PyTorch ask, without a process for each graph.
//
// A request is a line of JSON, then the bytes of its inputs, one behind the other:
//   graph    the text of a graph; or
//   program  a program of ATen calls (aten_json.h)
//   passes   done in order: "decompose", "recognise", "simplify", "vjp NAME…", "jvp NAME…"
//   inputs   {"name", "shape"}; of the graph that the passes give. Left out: nothing is evaluated. The seed and offset
//   of a
//            program's random numbers are 0 where they are not among them
//   sizes    of dims that no input says
// or {"aten": true}, which asks for the table of ATen operators. The answer is a line of JSON, then the bytes of its
// outputs:
//   error    the message; nothing else then
//   outputs  {"name", "type", "shape"}, with numbers for extents where they were evaluated
//   inputs   names, of what was evaluated
//   found    by op, what recognise() found
//   text     of the graph after the passes
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "aten/aten.h"
#include "aten_json.h"
#include "kiln/graph/decompose.h"
#include "kiln/graph/differentiate.h"
#include "kiln/graph/evaluate.h"
#include "kiln/graph/recognise.h"
#include "kiln/graph/simplify.h"
#include "kiln/graph/text.h"
#include "kiln/graph/verify.h"

namespace kiln::graph {
namespace {

using Json = nlohmann::json;

struct Answer {
  Json json = Json::object();
  std::vector<Array> outputs;
};

Answer failure(const std::string& message) {
  Answer out;
  out.json["error"] = message;
  return out;
}

Answer aten() {
  Answer out;
  for (const AtenRow& row : aten_table()) {
    out.json["rows"].push_back({{"name", row.name},
                                {"arguments", row.arguments},
                                {"core", row.core},
                                {"kind", static_cast<int>(row.kind)},
                                {"expression", row.expression},
                                {"note", row.note}});
  }
  return out;
}

Result<Graph> pass(const Graph& graph, const std::string& text, Json& found) {
  std::istringstream words(text);
  std::string name;
  words >> name;
  const std::vector<std::string> names(std::istream_iterator<std::string>(words), {});
  if (name == "decompose") return decompose(graph);
  if (name == "simplify") return simplify(graph);
  if (name == "vjp") return vjp(graph, names);
  if (name == "jvp") return jvp(graph, names);
  if (name != "recognise") return invalid_argument("there is no pass `" + text + "`");
  auto out = recognise(graph);
  if (!out) return out.error();
  for (const auto& [op, count] : out->found) found[info(op).name] = count;
  return std::move(out->graph);
}

size_t size_in_bytes(const Array& array) {
  return static_cast<size_t>(array.count()) * static_cast<size_t>(dsl::info(array.element).bytes);
}

Result<std::vector<Array>> inputs_of(const Graph& graph, const Json& given, std::istream& in) {
  std::vector<Array> out(graph.main().inputs.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const std::string& name = graph.main().inputs[i].name;
    if (name == "seed" || name == "offset") out[i] = own(ElementType::kU64, {});
  }
  for (const Json& each : given) {
    const auto name = each["name"].get<std::string>();
    size_t place = 0;
    while (place < out.size() && graph.main().inputs[place].name != name) ++place;
    if (place == out.size()) return invalid_argument("no input `" + name + "`\n" + print(graph));
    const TensorType& type = graph.type(graph.main(), graph.main().inputs[place].value);
    out[place] = own(type.element, each["shape"].get<std::vector<int64_t>>());
    in.read(reinterpret_cast<char*>(out[place].storage->data()),
            static_cast<std::streamsize>(size_in_bytes(out[place])));
  }
  return out;
}

Result<Graph> graph_asked(const Json& request) {
  if (!request.contains("program")) return parse(request["graph"].get<std::string>(), "graph");
  auto program = aten_program(request["program"]);
  if (!program) return program.error();
  return graph_of(*program);
}

Answer answer(const Json& request, std::istream& in) {
  if (request.contains("aten")) return aten();
  auto graph = graph_asked(request);
  Answer out;
  Json found = Json::object();
  for (size_t i = 0; graph && i < request["passes"].size(); ++i) {
    graph = pass(*graph, request["passes"][i].get<std::string>(), found);
  }
  if (!graph) return failure(graph.error().message);
  if (auto sound = verify(*graph); !sound) return failure(sound.error().message);
  out.json["found"] = std::move(found);
  if (!request.contains("inputs")) {
    out.json["text"] = print(*graph);
    for (const Output& output : graph->main().outputs) {
      const TensorType& type = graph->type(graph->main(), output.value);
      Json shape = Json::array();
      for (const Expr& extent : type.shape) {
        const auto known = extent.as_constant();
        shape.push_back(known ? Json(*known) : Json(dsl::to_string(extent, graph->expr_names())));
      }
      out.json["outputs"].push_back(
          {{"name", output.name}, {"type", dsl::info(type.element).name}, {"shape", std::move(shape)}});
    }
    return out;
  }
  auto inputs = inputs_of(*graph, request["inputs"], in);
  if (!inputs) return failure(inputs.error().message);
  for (const Input& input : graph->main().inputs) out.json["inputs"].push_back(input.name);
  const auto sizes = request.value("sizes", std::map<std::string, int64_t>());
  auto outputs = evaluate(*graph, *inputs, sizes);
  if (!outputs) return failure(outputs.error().message);
  for (size_t i = 0; i < outputs->size(); ++i) {
    const Array& array = (*outputs)[i];
    out.json["outputs"].push_back(
        {{"name", graph->main().outputs[i].name}, {"type", dsl::info(array.element).name}, {"shape", array.shape}});
  }
  out.outputs = std::move(*outputs);
  return out;
}

int serve() {
  std::ios::sync_with_stdio(false);
  std::string line;
  while (std::getline(std::cin, line)) {
    const Json request = Json::parse(line, nullptr, false);
    if (request.is_discarded()) {
      std::fprintf(stderr, "graph_reference: a request is no JSON\n");
      return 1;
    }
    // Bytes that a failure leaves unread would be the next request.
    size_t bytes = request.value("bytes", size_t{0});
    std::string data(bytes, '\0');
    std::cin.read(data.data(), static_cast<std::streamsize>(bytes));
    std::istringstream in(std::move(data));
    const Answer out = answer(request, in);
    std::cout << out.json.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
    for (const Array& array : out.outputs) {
      std::cout.write(reinterpret_cast<const char*>(array.data), static_cast<std::streamsize>(size_in_bytes(array)));
    }
    std::cout.flush();
  }
  return 0;
}

}  // namespace
}  // namespace kiln::graph

int main() { return kiln::graph::serve(); }
