#include "graph_formats.h"

#include <span>

#include "kiln/graph/aten.h"
#include "kiln/graph/binary.h"
#include "kiln/graph/pt2.h"
#include "kiln/graph/text.h"

namespace kiln::c {
namespace {

Result<graph::Graph> read_cbor(std::string_view bytes, const std::string& name) {
  auto graph = graph::decode(std::as_bytes(std::span(bytes)));
  if (!graph) graph.error().message = name + ": " + graph.error().message;
  return graph;
}

Result<graph::Graph> read_kg(std::string_view bytes, const std::string& name) { return graph::parse(bytes, name); }

Result<graph::Graph> read_exported(std::string_view bytes, const std::string& name) {
  auto model = graph::read_exported_json(bytes, name);
  if (!model) return model.error();
  auto graph = graph::graph_of(model->program);
  if (!graph) graph.error().message = name + ": " + graph.error().message;
  return graph;
}

struct Format {
  bool (*is_it)(std::string_view bytes);
  Result<graph::Graph> (*read)(std::string_view bytes, const std::string& name);
};
// The first that claims the bytes reads them. Text claims what nobody else does, so that it stands last.
constexpr Format kFormats[] = {
    // An array of CBOR, whose first byte begins no text.
    {[](std::string_view bytes) { return !bytes.empty() && static_cast<unsigned char>(bytes[0]) >> 5 == 4; },
     read_cbor},
    // An object of JSON; no graph as text begins so.
    {[](std::string_view bytes) { return bytes.starts_with('{'); }, read_exported},
    {[](std::string_view) { return true; }, read_kg},
};

}  // namespace

Result<graph::Graph> read_graph(std::string_view bytes, const std::string& name) {
  for (const Format& format : kFormats) {
    if (format.is_it(bytes)) return format.read(bytes, name);
  }
  return internal_error("no format claims `" + name + "`");
}

}  // namespace kiln::c
