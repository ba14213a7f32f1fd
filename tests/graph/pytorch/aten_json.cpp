#include "aten_json.h"

#include <cstdlib>

#include "kiln/graph/text.h"

namespace kiln::graph {
namespace {

using Json = nlohmann::json;

// Thrown within this file: what is wrong with the text.
struct Mistake {
  std::string message;
};

// The text of dims is that of graphs: an expression is read as the value of a node.
class DimReader {
 public:
  explicit DimReader(const Json& dims) {
    for (const auto& [name, bounds] : dims.items()) {
      head_ += "dim " + name + ": " + std::to_string(bounds[0].get<int64_t>()) + ".." +
               std::to_string(bounds[1].get<int64_t>()) + "\n";
    }
  }

  Dim read(const Json& json) const {
    if (json.is_number()) return json.get<int64_t>();
    const std::string text = json.get<std::string>();
    auto graph =
        parse(head_ + "graph g() {\n  %v = extent {type = i64, value = " + text + "}\n  output y = %v\n}\n", "dim");
    if (!graph) throw Mistake{"`" + text + "`: " + graph.error().message};
    return {expr_attr(graph->attrs(graph->main().nodes[0]), 1), graph->dims};
  }
  Shape shape(const Json& json) const {
    Shape out;
    for (const Json& each : json) out.push_back(read(each));
    return out;
  }

 private:
  std::string head_;
};

ElementType element(const Json& json) {
  const auto out = dsl::parse_element_type(json.get<std::string>());
  if (!out) throw Mistake{"there is no element type " + json.dump()};
  return *out;
}

AtenArgument argument(const Json& json, const DimReader& dims) {
  if (json.is_null()) return {};
  if (json.is_boolean()) return {json.get<bool>()};
  if (json.is_number_integer()) return {json.get<int64_t>()};
  if (json.is_number()) return {json.get<double>()};
  if (json.is_array()) {
    AtenList out;
    for (const Json& each : json) out.push_back(argument(each, dims));
    return {std::move(out)};
  }
  if (json.contains("float")) return {std::strtod(json["float"].get<std::string>().c_str(), nullptr)};
  if (json.contains("word")) return {json["word"].get<std::string>()};
  if (json.contains("type")) return {element(json["type"])};
  if (json.contains("dim")) return {dims.read(json["dim"])};
  if (json.contains("tensor")) return {AtenName{json["tensor"].get<std::string>()}};
  throw Mistake{"no argument: " + json.dump()};
}

AtenCall call(const Json& json, const DimReader& dims) {
  AtenCall out;
  out.target = json["target"].get<std::string>();
  for (const auto& [name, each] : json["arguments"].items()) out.arguments.emplace_back(name, argument(each, dims));
  out.results = json["results"].get<std::vector<std::string>>();
  out.place = json.value("place", "");
  return out;
}

}  // namespace

Result<AtenProgram> aten_program(const Json& json) {
  try {
    const DimReader dims(json.value("dims", Json::object()));
    AtenProgram out;
    out.name = json.value("name", "test");
    for (const Json& each : json["inputs"]) {
      out.inputs.push_back({each["name"].get<std::string>(), element(each["type"]), dims.shape(each["shape"]), ""});
    }
    for (const Json& each : json["calls"]) out.calls.push_back(call(each, dims));
    out.outputs = json["outputs"].get<std::vector<std::pair<std::string, std::string>>>();
    return out;
  } catch (const Mistake& mistake) {
    return invalid_argument(mistake.message);
  } catch (const Json::exception& problem) {
    return invalid_argument(problem.what());
  }
}

}  // namespace kiln::graph
