// Graphs as they are written, and compiling them.
#include "errors.h"
#include "graph_formats.h"
#include "graph_options.h"
#include "kiln/client/graph_package.h"
#include "kiln/graph/aten.h"
#include "kiln/graph/binary.h"
#include "kiln/graph/text.h"
#include "kiln/wire/files.h"
#include "objects.h"

namespace kiln::c {
namespace {

Result<void> give_graph(Result<graph::Graph> read, kiln_graph** graph) {
  if (!read) return read.error();
  give<GraphObject>(graph, std::move(*read));
  return {};
}

}  // namespace

extern "C" {

kiln_status kiln_graph_read(const char* path, kiln_graph** graph) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(path, "path"); !fine) return fine;
    if (auto fine = check_pointer(graph, "graph"); !fine) return fine;
    auto bytes = wire::read_text(path);
    if (!bytes) return bytes.error();
    return give_graph(read_graph(*bytes, path), graph);
  });
}

kiln_status kiln_graph_parse(const void* data, size_t size, const char* name, kiln_graph** graph) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(data, size, "data"); !fine) return fine;
    if (auto fine = check_pointer(graph, "graph"); !fine) return fine;
    return give_graph(read_graph({static_cast<const char*>(data), size}, text_or(name, "graph")), graph);
  });
}

int32_t kiln_graph_knows_aten(const char* target) { return target != nullptr && graph::is_known_aten(target) ? 1 : 0; }

kiln_status kiln_graph_text(kiln_graph* graph, kiln_bytes** text) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(text, "text"); !fine) return fine;
    auto object = pin<GraphObject>(graph, "graph");
    if (!object) return object.error();
    give<BytesObject>(text, graph::print((*object)->graph));
    return {};
  });
}

kiln_status kiln_graph_encode(kiln_graph* graph, kiln_bytes** bytes) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(bytes, "bytes"); !fine) return fine;
    auto object = pin<GraphObject>(graph, "graph");
    if (!object) return object.error();
    const std::vector<std::byte> encoded = graph::encode(graph::canonical((*object)->graph));
    give<BytesObject>(bytes, std::string(reinterpret_cast<const char*>(encoded.data()), encoded.size()));
    return {};
  });
}

kiln_status kiln_graph_compile(kiln_client* client, kiln_graph* graph, const kiln_graph_options* options,
                               kiln_compiled_graph** fn) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(fn, "fn"); !fine) return fine;
    auto with = pin<ClientObject>(client, "client");
    if (!with) return with.error();
    auto what = pin<GraphObject>(graph, "graph");
    if (!what) return what.error();
    auto chosen = graph_options(options);
    if (!chosen) return chosen.error();
    auto compiled = (*with)->client.compile((*what)->graph, *chosen);
    if (!compiled) return compiled.error();
    give<CompiledGraphObject>(fn, std::move(*compiled));
    return {};
  });
}

kiln_status kiln_graph_export(kiln_client* client, kiln_compiled_graph* fn, kiln_bytes** package) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(package, "package"); !fine) return fine;
    auto with = pin<ClientObject>(client, "client");
    if (!with) return with.error();
    auto what = pin<CompiledGraphObject>(fn, "fn");
    if (!what) return what.error();
    if ((*what)->is_bound) return invalid_argument("a handle with bound inputs does not travel: export the one before");
    auto written = client::write_package((*with)->client, (*what)->fn.plan());
    if (!written) return written.error();
    give<BytesObject>(package, std::move(*written));
    return {};
  });
}

kiln_status kiln_graph_import(const void* package, size_t size, kiln_compiled_graph** fn) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(package, "package"); !fine) return fine;
    if (auto fine = check_pointer(fn, "fn"); !fine) return fine;
    auto loaded = client::read_package({static_cast<const std::byte*>(package), size});
    if (!loaded) return loaded.error();
    give<CompiledGraphObject>(fn, std::move(*loaded));
    return {};
  });
}

}  // extern "C"

}  // namespace kiln::c
