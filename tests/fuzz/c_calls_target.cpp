// Any bytes as calls of kiln.h, one after the other: each is a status with a sentence, and nothing breaks.
//
// Each call takes its number, then its arguments, byte by byte: handles by their place in what earlier calls gave,
// wild numbers among them; counts, types, ranks and extents that may be negative or huge. Pointers are good ones:
// what a caller says of the memory behind them must be true.
#include <array>
#include <cstring>
#include <vector>

#include "check.h"
#include "graph/hand_plan.h"
#include "kiln.h"
#include "kiln/client/graph_package.h"

namespace kiln::fuzz {
namespace {

constexpr const char* kGraph = "dim n: 1..64\ngraph g(%x: f32[n]) {\n  %y = neg %x : f32[n]\n  output y = %y\n}\n";
constexpr const char* kKernel =
    "kernel k(%x: ptr<f32>, %n: i32) {\n  grid [1, 1, 1]\n\n  %v = load %x : f32\n  store %x, %v\n}\n";
constexpr size_t kBytes = 4096, kMostCalls = 400, kMostHandles = 64;

// A plan for the interpreter, as a package: no daemon is asked.
const std::string& package() {
  static const std::string& bytes = *new std::string([] {
    Client client;
    return *client::write_package(client, planned::hand_plan("interp"));
  }());
  return bytes;
}

class Calls {
 public:
  Calls(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  ~Calls() {
    for (void* handle : handles_) (void)kiln_free(handle);
    while (kiln_profile_end() == KILN_OK) {
    }
    kiln_bytes *summary = nullptr, *trace = nullptr;
    if (kiln_profile_stop(&summary, &trace) == KILN_OK) (void)kiln_free(summary), (void)kiln_free(trace);
  }

  void run() {
    for (size_t i = 0; i < kMostCalls && at_ < size_; ++i) call(byte());
  }

 private:
  uint8_t byte() { return at_ < size_ ? data_[at_++] : 0; }
  // Small, but for some that are the largest and the least there are.
  int64_t number() {
    static constexpr std::array<int64_t, 6> kOdd = {-1, INT64_MIN, INT64_MAX, 5000, int64_t{1} << 50, -7};
    const uint8_t from = byte();
    return from < 250 ? from % 12 : kOdd[from - 250];
  }
  uint32_t small() { return static_cast<uint32_t>(number()); }
  // One that a call gave, freed since perhaps, or none at all.
  template <class Handle>
  Handle* handle() {
    const uint8_t from = byte();
    if (from >= 250 || handles_.empty()) return reinterpret_cast<Handle*>(uint64_t{from} << (from % 57));
    return from == 249 ? nullptr : static_cast<Handle*>(handles_[from % handles_.size()]);
  }

  // No more than there is: nobody can tell.
  size_t size_of(size_t bytes) { return byte() % 8 == 0 ? byte() % (bytes + 1) : bytes; }

  // What holds of every call.
  bool done(kiln_status status) {
    check(status >= KILN_OK && status < KILN_INTERNAL, "a call gives a status, and none is internal", last());
    check(status == KILN_OK || *kiln_error_message() != 0, "a failure is explained");
    return status == KILN_OK;
  }
  static const char* last() { return kiln_error_message(); }
  template <class Handle>
  void keep(kiln_status status, Handle* const& given) {
    if (!done(status)) return check(given == nullptr, "a call that fails gives nothing");
    check(given != nullptr, "a call that goes well gives its result");
    if (handles_.size() < kMostHandles) return handles_.push_back(given);
    (void)kiln_free(std::exchange(handles_[byte() % kMostHandles], given));
  }

  // In a part of the buffer of its own; most have one shape, which the graph takes.
  kiln_array array(size_t slot) {
    const bool is_odd = byte() % 16 == 0;
    for (int64_t& extent : shapes_[slot]) extent = is_odd ? number() : 4;
    kiln_array out = {};
    out.data = byte() % 16 == 0 ? nullptr : buffer_.data() + slot * kBytes + (byte() % 8 == 0 ? 1 : 0);
    out.shape = byte() % 16 == 0 ? nullptr : shapes_[slot].data();
    out.bytes = kBytes - 8;
    out.rank = static_cast<int32_t>(byte() % 16 == 0 ? number() : slot == 4 ? 1 : 2);
    out.type = byte() % 16 == 0 ? small() : uint32_t{KILN_F32};
    out.device = byte() % 16 == 0 ? small() : uint32_t{KILN_HOST};
    out.ordinal = byte() % 16 == 0 ? static_cast<int32_t>(number()) : 0;
    out.flags = byte() % 16 == 0 ? small() : uint32_t{KILN_WRITABLE};
    return out;
  }

  void call(uint8_t which) {
    switch (which % 8) {
      case 0:
        return make(byte());
      case 1:
        return look(byte());
      case 2:
        return run_graph();
      case 3:
        return launch();
      case 4:
        return use_memory(byte());
      case 5:
        return use_streams(byte());
      case 6:
        return exchange_arrays(byte());
      default:
        return finish(byte());
    }
  }

  void make(uint8_t which) {
    kiln_graph* graph = nullptr;
    kiln_kernel* kernel = nullptr;
    kiln_compiled_graph* fn = nullptr;
    kiln_tensor* tensor = nullptr;
    kiln_device* device = nullptr;
    kiln_client* client = nullptr;
    kiln_cancel* cancel = nullptr;
    kiln_client_options alone = {};
    alone.size = size_of(sizeof alone);
    alone.no_autostart = alone.no_pipe = alone.no_background = 1;
    alone.runtime_dir = "/nowhere";
    const std::string& bytes = package();
    const size_t cut = byte() % 8 == 0 ? static_cast<size_t>(byte()) : bytes.size();
    switch (which % 7) {
      case 0:
        return keep(kiln_graph_parse(kGraph, byte() % 4 == 0 ? byte() % 80 : std::strlen(kGraph), nullptr, &graph),
                    graph);
      case 1:
        return keep(kiln_kernel_parse(kKernel, byte() % 4 == 0 ? byte() % 80 : std::strlen(kKernel), nullptr, &kernel),
                    kernel);
      case 2:
        return keep(kiln_graph_import(bytes.data(), std::min(cut, bytes.size()), &fn), fn);
      case 3:
        for (int64_t& extent : shapes_[0]) extent = byte() % 16 == 0 ? number() : byte() % 4;
        return keep(kiln_tensor_allocate(small(), static_cast<int32_t>(number()), shapes_[0].data(), &tensor), tensor);
      case 4:
        return keep(kiln_device_open(byte() % 8 == 0 ? small() : uint32_t{KILN_HOST}, static_cast<int32_t>(byte() % 3),
                                     &device),
                    device);
      case 5:
        return keep(kiln_client_create(&alone, &client), client);
      default:
        return keep(kiln_cancel_create(&cancel), cancel);
    }
  }

  void look(uint8_t which) {
    kiln_bytes* bytes = nullptr;
    kiln_tensor_info info = {};
    kiln_param_info param = {};
    kiln_device_info device = {};
    kiln_graph_memory_need need = {};
    kiln_array inputs[] = {array(0), array(1)};
    std::array<int64_t, 8> extents{};
    switch (which % 11) {
      case 0:
        return keep(kiln_graph_text(handle<kiln_graph>(), &bytes), bytes);
      case 1:
        return keep(kiln_kernel_encode(handle<kiln_kernel>(), &bytes), bytes);
      case 2:
        return (void)done(kiln_graph_input(handle<kiln_compiled_graph>(), static_cast<size_t>(number()), &info));
      case 3:
        return (void)done(kiln_kernel_param(handle<kiln_kernel>(), static_cast<size_t>(number()), &param));
      case 4:
        return (void)done(kiln_device_get_info(handle<kiln_device>(), &device));
      case 5:
        return (void)done(kiln_graph_memory(handle<kiln_compiled_graph>(), inputs, 2, nullptr, &need));
      case 6:
        return (void)done(
            kiln_graph_output_shapes(handle<kiln_compiled_graph>(), inputs, 2, extents.data(), byte() % 9, nullptr));
      case 7:
        return keep(kiln_graph_explain(handle<kiln_compiled_graph>(), nullptr, 0, &bytes), bytes);
      case 8:
        (void)kiln_bytes_size(handle<kiln_bytes>());
        return (void)kiln_graph_donor(handle<kiln_compiled_graph>(), static_cast<size_t>(number()));
      case 9:
        return keep(kiln_function_metadata(handle<kiln_function>(), &bytes), bytes);
      default:
        check(kiln_status_name(static_cast<kiln_status>(number())) != nullptr, "every number has a name");
        return (void)kiln_type_name(small());
    }
  }

  void run_graph() {
    kiln_array inputs[] = {array(0), array(1)}, outputs[] = {array(2), array(3), array(4)};
    kiln_run_options options = {};
    options.size = size_of(sizeof options);
    options.threads = static_cast<int32_t>(byte() % 8 == 0 ? number() : 1);
    options.memory_limit = static_cast<uint64_t>(byte() % 4 == 0 ? number() : 0);
    options.cancel = byte() % 4 == 0 ? handle<kiln_cancel>() : nullptr;
    options.stream = byte() % 4 == 0 ? handle<kiln_stream>() : nullptr;
    auto* fn = handle<kiln_compiled_graph>();
    const size_t input_count = byte() % 8 == 0 ? 1 : 2, output_count = byte() % 8 == 0 ? 1 : 3;
    (void)done(kiln_graph_run(fn, inputs, input_count, outputs, output_count, &options));
    // What is queued needs its arrays until it is done.
    if (options.stream != nullptr) (void)done(kiln_stream_synchronise(options.stream));
  }

  void launch() {
    kiln_function* fn = nullptr;
    kiln_kernel_options options = {};
    options.size = sizeof options;
    options.target = byte() % 8 == 0 ? "toaster" : "interp";
    options.mode = byte() % 8 == 0 ? static_cast<int32_t>(number()) : 0;
    keep(kiln_kernel_compile(handle<kiln_client>(), handle<kiln_kernel>(), &options, &fn), fn);
    kiln_argument arguments[2] = {};
    for (kiln_argument& each : arguments) {
      each.kind = byte() % 4 == 0 ? small() : uint32_t{KILN_ARG_POINTER};
      each.type = byte() % 4 == 0 ? small() : uint32_t{KILN_F32};
      each.extent = byte() % 4 == 0 ? 0 : int64_t{kBytes} / 8;
      each.device = byte() % 8 == 0 ? small() : uint32_t{KILN_HOST};
      each.value.pointer = byte() % 8 == 0 ? nullptr : buffer_.data();
    }
    if (byte() % 4 != 0) arguments[1].kind = KILN_ARG_INT, arguments[1].value.i = number();
    (void)done(kiln_function_launch(fn != nullptr ? fn : handle<kiln_function>(), arguments, byte() % 3, nullptr));
  }

  void use_memory(uint8_t which) {
    kiln_memory* memory = nullptr;
    auto* stream = byte() % 2 == 0 ? nullptr : handle<kiln_stream>();
    const auto bytes = static_cast<uint64_t>(number());
    switch (which % 7) {
      case 0:
        return keep(kiln_memory_allocate(handle<kiln_device>(), bytes, &memory), memory);
      case 1:
        return keep(kiln_memory_allocate_on(handle<kiln_stream>(), bytes, &memory), memory);
      case 2:
        return (void)done(kiln_memory_copy_from_host(handle<kiln_memory>(), buffer_.data(), bytes % kBytes, stream));
      case 3:
        return (void)done(kiln_memory_copy_to_host(handle<kiln_memory>(), buffer_.data(), bytes % kBytes, stream));
      case 4:
        return (void)done(kiln_memory_copy(handle<kiln_memory>(), handle<kiln_memory>(), stream));
      case 5:
        return (void)done(kiln_memory_fill(handle<kiln_memory>(), byte(), stream));
      default:
        return (void)done(kiln_device_give_back_caches(handle<kiln_device>(), nullptr));
    }
  }

  static kiln_status queue_nothing(void*) { return KILN_OK; }

  void use_streams(uint8_t which) {
    kiln_stream* stream = nullptr;
    kiln_event* event = nullptr;
    kiln_recording* recording = nullptr;
    int32_t reached = 0, cores[] = {static_cast<int32_t>(number())};
    float ms = 0;
    switch (which % 10) {
      case 0:
        return keep(kiln_stream_create(handle<kiln_device>(), cores, byte() % 2, &stream), stream);
      case 1:
        return keep(kiln_event_create(handle<kiln_device>(), &event), event);
      case 2:
        return (void)done(kiln_event_record(handle<kiln_event>(), handle<kiln_stream>()));
      case 3:
        return (void)done(kiln_event_hold_back(handle<kiln_event>(), handle<kiln_stream>()));
      case 4:
        return (void)done(kiln_event_is_done(handle<kiln_event>(), &reached));
      case 5:
        return (void)done(kiln_event_elapsed_ms(handle<kiln_event>(), handle<kiln_event>(), &ms));
      case 6:
        return keep(kiln_recording_capture(handle<kiln_stream>(), queue_nothing, nullptr, &recording), recording);
      case 7:
        return (void)done(kiln_recording_replay(handle<kiln_recording>(), handle<kiln_stream>()));
      case 8:
        return (void)done(kiln_stream_synchronise(handle<kiln_stream>()));
      default:
        return (void)done(kiln_event_synchronise(handle<kiln_event>()));
    }
  }

  void exchange_arrays(uint8_t which) {
    kiln_array shown = {};
    if (which % 2 == 0) return (void)done(kiln_tensor_array(handle<kiln_tensor>(), &shown));
    void* managed = nullptr;
    const int32_t versioned = byte() % 4 == 0 ? 0 : 1;
    if (!done(kiln_tensor_to_dlpack(handle<kiln_tensor>(), versioned, &managed))) return;
    kiln_tensor *again = nullptr, *twice = nullptr;
    keep(kiln_tensor_from_dlpack(managed, versioned, &again), again);
    check(kiln_tensor_from_dlpack(managed, versioned, &twice) == KILN_INVALID_ARGUMENT, "a capsule is used once");
  }

  void finish(uint8_t which) {
    switch (which % 6) {
      case 0:
        return (void)done(kiln_profile_begin("part"));
      case 1:
        return (void)done(kiln_profile_end());
      case 2:
        return (void)done(kiln_profile_start(static_cast<int32_t>(number())));
      case 3:
        return (void)done(kiln_profile_fallback("name", "why", static_cast<uint64_t>(number())));
      case 4:
        return (void)done(kiln_cancel_request(handle<kiln_cancel>()));
      default:
        // Its number stays in the pool, as in a program that forgets that it was freed.
        return (void)done(kiln_free(handle<void>()));
    }
  }

  const uint8_t* const data_;
  const size_t size_;
  size_t at_ = 0;
  std::vector<void*> handles_;
  std::array<std::array<int64_t, 16>, 5> shapes_{};
  alignas(64) std::array<std::byte, 5 * kBytes> buffer_{};
};

}  // namespace
}  // namespace kiln::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kiln::fuzz::Calls(data, size).run();
  return 0;
}
