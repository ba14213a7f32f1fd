// What stands behind the handles of kiln.h.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "handles.h"
#include "kiln.h"
#include "kiln/client/client.h"
#include "kiln/client/gpu.h"
#include "kiln/client/graph.h"
#include "kiln/client/pt2.h"
#include "kiln/client/safetensors.h"

namespace kiln::c {

struct ClientObject final : Object {
  static constexpr Kind kKind = Kind::kClient;
  explicit ClientObject(ClientOptions options) : client(std::move(options)) {}
  Client client;
};

struct BytesObject final : Object {
  static constexpr Kind kKind = Kind::kBytes;
  explicit BytesObject(std::string from) : bytes(std::move(from)) {}
  std::string bytes;
};

struct CancelObject final : Object {
  static constexpr Kind kKind = Kind::kCancel;
  std::stop_source source;
};

struct GraphObject final : Object {
  static constexpr Kind kKind = Kind::kGraph;
  explicit GraphObject(graph::Graph from) : graph(std::move(from)) {}
  graph::Graph graph;
};

// A place where arrays lie, as kiln_array says it.
struct Place {
  uint32_t device = KILN_HOST;
  int32_t ordinal = 0;
  bool operator==(const Place&) const = default;
};
std::string place_text(const Place& place);  // "the host", "cuda:0"

struct CompiledGraphObject final : Object {
  static constexpr Kind kKind = Kind::kCompiledGraph;
  explicit CompiledGraphObject(CompiledGraph from);

  // An input or output as kiln_tensor_info shows it.
  struct Tensor {
    std::string text;
    std::vector<int64_t> shape;
  };
  CompiledGraph fn;
  Place place;            // where a GPU's graph has its arrays
  bool is_bound = false;  // its plan lacks the constants that the handle has
  std::vector<Tensor> inputs, outputs;
};

struct TensorObject final : Object {
  static constexpr Kind kKind = Kind::kTensor;
  TensorObject(ArrayView from, Place where) : view(std::move(from)), place(where) {}
  ArrayView view;  // with its owner
  Place place;
};

struct SafetensorsObject final : Object {
  static constexpr Kind kKind = Kind::kSafetensors;
  explicit SafetensorsObject(SafeTensors from) : file(std::move(from)) {}
  SafeTensors file;
};

struct ModelObject final : Object {
  static constexpr Kind kKind = Kind::kModel;
  explicit ModelObject(LoadedModel from) : model(std::move(from)) {}
  const LoadedModel model;
};

struct KernelObject final : Object {
  static constexpr Kind kKind = Kind::kKernel;
  explicit KernelObject(dsl::Kernel from) : kernel(std::move(from)) {}
  dsl::Kernel kernel;
};

struct FunctionObject final : Object {
  static constexpr Kind kKind = Kind::kFunction;
  FunctionObject(UntypedFunction from, std::string_view target);
  UntypedFunction fn;
  Place place;  // where a GPU's function has its arrays
};

struct DeviceObject final : Object {
  static constexpr Kind kKind = Kind::kDevice;
  explicit DeviceObject(Device from) : device(std::move(from)) {}
  Device device;
};

struct StreamObject final : Object {
  static constexpr Kind kKind = Kind::kStream;
  explicit StreamObject(Stream from);
  Stream stream;
  Place place;
};

struct EventObject final : Object {
  static constexpr Kind kKind = Kind::kEvent;
  explicit EventObject(Event from, Place where) : event(std::move(from)), place(where) {}
  Event event;
  Place place;
};

struct RecordingObject final : Object {
  static constexpr Kind kKind = Kind::kRecording;
  RecordingObject(Recording from, Place where) : recording(std::move(from)), place(where) {}
  Recording recording;
  Place place;
};

struct MemoryObject final : Object {
  static constexpr Kind kKind = Kind::kMemory;
  MemoryObject(DeviceMemory from, Device of);
  DeviceMemory memory;
  Device device;
  Place place;
};

// A result's handle, which the caller owns.
template <class T, class Handle, class... Args>
void give(Handle** out, Args&&... args) {
  *out = publish<Handle>(std::make_unique<T>(std::forward<Args>(args)...));
}

// Texts that may be absent.
inline std::string text_or(const char* text, const char* otherwise) { return text ? text : otherwise; }

}  // namespace kiln::c
