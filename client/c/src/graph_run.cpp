// Runs of compiled graphs. A call in a loop asks for no memory of its own: arrays are read into the thread's views,
// which keep what their shapes take.
#include <algorithm>
#include <utility>

#include "arrays.h"
#include "errors.h"
#include "lifetime.h"
#include "run_options.h"

namespace kiln::c {
namespace {

using Views = std::vector<ArrayView>;

// The thread's views, for a call. One within another, from a print, finds none and makes its own.
class ViewsOfThread {
 public:
  ViewsOfThread() : inputs(std::move(kept().inputs)), outputs(std::move(kept().outputs)) {}
  ~ViewsOfThread() {
    kept().inputs = std::move(inputs);
    kept().outputs = std::move(outputs);
  }
  ViewsOfThread(const ViewsOfThread&) = delete;
  ViewsOfThread& operator=(const ViewsOfThread&) = delete;

  Views inputs, outputs;  // at least as many as are used; those behind are of earlier calls

 private:
  struct Kept {
    Views inputs, outputs;
  };
  static Kept& kept() { return client::of_thread<Kept>(); }
};

// So many views of arrays, the first of `views`. `names`: of a list that may be shorter, whose error is the client's.
Result<std::span<const ArrayView>> read_arrays(const kiln_array* arrays, size_t count, const char* role,
                                               const std::vector<graph::PlannedTensor>& names, const Place& place,
                                               Views& views) {
  if (auto fine = check_pointer(arrays, count, role); !fine) return fine.error();
  if (count != names.size()) {
    return invalid_argument("the graph has " + std::to_string(names.size()) + " " + role + ", and " +
                            std::to_string(count) + " were given");
  }
  if (views.size() < count) views.resize(count);
  const char* one = role[0] == 'i' ? "input" : "output";
  for (size_t i = 0; i < count; ++i) {
    if (auto read = read_array(arrays[i], {one, i, names[i].name.c_str()}, place, views[i]); !read) return read.error();
  }
  return std::span<const ArrayView>(views).first(count);
}

// What every call on a handle of a graph begins with.
class Call {
 public:
  Result<void> begin(kiln_compiled_graph* handle, const kiln_array* inputs, size_t count,
                     const kiln_run_options* options) {
    auto object = pin<CompiledGraphObject>(handle, "fn");
    if (!object) return object.error();
    object_ = std::move(*object);
    place_ = object_->place;
    if (auto read = options_.read(options, place_); !read) return read;
    auto read = read_arrays(inputs, count, "inputs", plan().inputs, place_, views_.inputs);
    if (!read) return read.error();
    inputs_ = *read;
    return {};
  }

  Result<void> run_into(const kiln_array* outputs, size_t count) {
    auto read = read_arrays(outputs, count, "outputs", plan().outputs, place_, views_.outputs);
    if (!read) return read.error();
    auto done = fn().run_into(inputs_, *read, options());
    if (done) options_.give_times();
    return done;
  }

  Result<std::vector<OwnedArray>> run() {
    for (size_t i = 0; i < inputs_.size(); ++i) views_.inputs[i].writable = false;
    auto results = fn()(inputs_, options());
    if (results) options_.give_times();
    return results;
  }

  const CompiledGraph& fn() const { return object_->fn; }
  const graph::Plan& plan() const { return object_->fn.plan(); }
  const Place& place() const { return place_; }
  std::span<const ArrayView> inputs() const { return inputs_; }
  const RunOptions& options() const { return options_.options; }

 private:
  ViewsOfThread views_;
  Pinned<CompiledGraphObject> object_;
  Place place_;
  KnownRunOptions options_;
  std::span<const ArrayView> inputs_;
};

}  // namespace

extern "C" {

kiln_status kiln_graph_run(kiln_compiled_graph* fn, const kiln_array* inputs, size_t input_count,
                           const kiln_array* outputs, size_t output_count, const kiln_run_options* options) {
  return guarded([&]() -> Result<void> {
    Call call;
    if (auto begun = call.begin(fn, inputs, input_count, options); !begun) return begun;
    return call.run_into(outputs, output_count);
  });
}

kiln_status kiln_graph_results(kiln_compiled_graph* fn, const kiln_array* inputs, size_t input_count,
                               kiln_tensor** outputs, size_t output_count, const kiln_run_options* options) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(outputs, output_count, "outputs"); !fine) return fine;
    Call call;
    if (auto begun = call.begin(fn, inputs, input_count, options); !begun) return begun;
    if (output_count != call.plan().outputs.size()) {
      return invalid_argument("the graph has " + std::to_string(call.plan().outputs.size()) + " outputs, and " +
                              std::to_string(output_count) + " were asked for");
    }
    auto results = call.run();
    if (!results) return results.error();
    std::vector<std::unique_ptr<TensorObject>> made;
    for (const OwnedArray& result : *results) {
      made.push_back(std::make_unique<TensorObject>(result.donate(), Place{}));
    }
    for (size_t i = 0; i < made.size(); ++i) outputs[i] = publish<kiln_tensor>(std::move(made[i]));
    return {};
  });
}

kiln_status kiln_graph_output_shapes(kiln_compiled_graph* fn, const kiln_array* inputs, size_t input_count,
                                     int64_t* extents, size_t capacity, const kiln_run_options* options) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(extents, capacity, "extents"); !fine) return fine;
    Call call;
    if (auto begun = call.begin(fn, inputs, input_count, options); !begun) return begun;
    auto shapes = call.fn().output_shapes(call.inputs(), call.options());
    if (!shapes) return shapes.error();
    size_t needed = 0;
    for (const auto& shape : *shapes) needed += shape.size();
    if (needed > capacity) {
      return invalid_argument("the outputs' shapes are " + std::to_string(needed) +
                              " numbers, and `extents` has room for " + std::to_string(capacity));
    }
    for (const auto& shape : *shapes) extents = std::ranges::copy(shape, extents).out;
    return {};
  });
}

kiln_status kiln_graph_prepare(kiln_compiled_graph* fn, const kiln_array* inputs, size_t input_count,
                               const kiln_run_options* options) {
  return guarded([&]() -> Result<void> {
    Call call;
    if (auto begun = call.begin(fn, inputs, input_count, options); !begun) return begun;
    return call.fn().prepare(call.inputs(), call.options());
  });
}

kiln_status kiln_graph_memory(kiln_compiled_graph* fn, const kiln_array* inputs, size_t input_count,
                              const kiln_run_options* options, kiln_graph_memory_need* memory) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(memory, "memory"); !fine) return fine;
    Call call;
    if (auto begun = call.begin(fn, inputs, input_count, options); !begun) return begun;
    auto need = call.fn().memory(call.inputs(), call.options());
    if (!need) return need.error();
    *memory = {need->arena, need->results, need->bound};
    return {};
  });
}

kiln_status kiln_graph_bind(kiln_compiled_graph* fn, const char* const* names, const kiln_array* arrays,
                            kiln_tensor* const* owners, size_t count, const kiln_run_options* options,
                            kiln_compiled_graph** bound) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(bound, "bound"); !fine) return fine;
    if (auto fine = check_pointer(names, count, "names"); !fine) return fine;
    if (auto fine = check_pointer(arrays, count, "arrays"); !fine) return fine;
    auto object = pin<CompiledGraphObject>(fn, "fn");
    if (!object) return object.error();
    Place place = (*object)->place;
    KnownRunOptions known;
    if (auto read = known.read(options, place); !read) return read;
    std::map<std::string, ArrayView> weights;
    for (size_t i = 0; i < count; ++i) {
      if (names[i] == nullptr) return null_argument("names[i]");
      const auto [place_of, is_new] = weights.try_emplace(names[i]);
      if (!is_new) return invalid_argument("`names` has `" + std::string(names[i]) + "` twice");
      ArrayView& view = place_of->second;
      if (auto read = read_array(arrays[i], {"array", i, names[i]}, place, view); !read) return read;
      if (owners == nullptr || owners[i] == nullptr) continue;
      auto owner = pin<TensorObject>(owners[i], "owners[i]");
      if (!owner) return owner.error();
      view.owner = (*owner)->view.owner;
    }
    auto made = (*object)->fn.bind(weights, known.options);
    if (!made) return made.error();
    auto out = std::make_unique<CompiledGraphObject>(std::move(*made));
    out->is_bound = true;
    *bound = publish<kiln_compiled_graph>(std::move(out));
    return {};
  });
}

}  // extern "C"

}  // namespace kiln::c
