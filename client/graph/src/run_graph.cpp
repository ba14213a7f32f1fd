// A run: inputs checked, memory found, launches in order.
#include <algorithm>
#include <cstring>
#include <utility>

#include "arena_use.h"
#include "array_memory.h"
#include "at_once.h"
#include "gpu/recorded.h"
#include "graph_state.h"
#include "launch_times.h"
#include "parallel.h"
#include "prepared_plan.h"
#include "profile/recorder.h"
#include "tune_graph.h"

namespace kiln::client {
namespace {

std::string input_text(const graph::Plan& plan, size_t i) { return "input `" + plan.inputs[i].name + "`"; }

// Whether two arrays of so many bytes, both without gaps, have a byte in common.
bool overlap(const void* a, uint64_t a_bytes, const void* b, uint64_t b_bytes) {
  const auto first = reinterpret_cast<uintptr_t>(a), second = reinterpret_cast<uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && first < second + b_bytes && second < first + a_bytes;
}

// Takes an arena for as long as it lives.
class Arena {
 public:
  explicit Arena(BlockPool& pool) : pool_(pool) {}
  ~Arena() {
    if (block_.data != nullptr) pool_.give_back(std::make_unique<Block>(std::move(block_)));
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  Result<std::byte*> take(uint64_t bytes, const RunOptions& options, const Device* device) {
    if (bytes == 0) return nullptr;
    const bool recorded = options.stream && is_recorded(*options.stream);
    auto block = recorded ? Block::make(bytes, options.threads, device, pool_.holder())
                          : pool_.take(bytes, options.threads, device, options.stream);
    if (!block) return block.error();
    std::byte* data = block->data;
    if (recorded) {
      keep_with_recording(*options.stream, block->owner);
    } else {
      block_ = std::move(*block);
      if (options.stream) block_.stream = *options.stream;
    }
    return data;
  }

 private:
  BlockPool& pool_;
  Block block_;
};

class Run {
 public:
  Run(const GraphState& state, const SizedPlan& sized, std::span<const ArrayView> inputs, const RunOptions& options)
      : state_(state),
        plan_(state.plan),
        sized_(sized),
        inputs_(inputs),
        options_(options),
        launch_options_{.threads = options.threads, .print = options.print, .stream = options.stream},
        times_(device(), plan_.launches.size(), options.launch_ms),
        arena_(state.arenas) {}

  // What each launch takes, in memory that is gone with this object; of a loop in its first pass, and nothing where it
  // has none.
  Result<std::vector<std::vector<Argument>>> all_arguments();

  Result<std::vector<OwnedArray>> run(std::span<const ArrayView> outputs) {
    if (auto fine = check_stream(outputs); !fine) return fine.error();
    if (auto fine = choose_memory(outputs); !fine) return fine.error();
    if (auto fine = check_limit(); !fine) return fine.error();
    if (auto done = copy_inputs(); !done) return done.error();
    if (auto done = allocate_results(); !done) return done.error();
    auto arena = arena_.take(sized_.arena_bytes, options_, device());
    if (!arena) return arena.error();
    place_buffers(*arena);
    keep_constants();
    if (auto asked = ask_tuner(); !asked) return asked.error();
    auto done = launch_all();
    if (device() != nullptr && options_.stream == nullptr) {
      // Also behind a failure: what is queued still uses the memory.
      auto finished = finish_on_device();
      if (done) done = std::move(finished);
    }
    if (!done) return done.error();
    return std::move(results_);
  }

 private:
  // What a stream runs later must be there without copies.
  Result<void> check_stream(std::span<const ArrayView> outputs) const;
  // Which inputs are copied, and where results go that need no memory of their own.
  Result<void> choose_memory(std::span<const ArrayView> outputs);
  Result<void> check_output(size_t output, const ArrayView& array, std::span<const ArrayView> outputs) const;
  // The input whose memory the result takes over; kNone: none.
  uint32_t donor_of(size_t output) const;
  Result<void> check_limit() const;
  Result<void> copy_inputs();
  Result<void> allocate_results();
  void place_buffers(std::byte* arena);
  // A recording outlives the handle.
  void keep_constants() const {
    if (options_.stream == nullptr || !is_recorded(*options_.stream)) return;
    for (const Block& block : state_.constants) keep_with_recording(*options_.stream, block.owner);
  }
  // In the first run of these sizes.
  Result<void> ask_tuner();
  Result<std::vector<std::vector<Argument>>> launch_arguments();
  bool runs(uint32_t launch) const {
    for (size_t i = 0; i < plan_.loops.size(); ++i) {
      const uint32_t first = plan_.loops[i].first;
      if (sized_.loop_lengths[i] == 0 && first <= launch && launch < first + plan_.loops[i].count) return false;
    }
    return true;
  }
  Result<void> launch_all();
  Result<void> launch_range(uint32_t first, uint32_t last, size_t loop);
  // Chooses what is ready of the launches, where the host's processors run them now.
  Result<void> use_prepared();
  Result<void> launch_units();
  Result<void> launch_prepared(size_t first, size_t last);  // units
  Error cancelled(uint32_t launch) const {
    return error(ErrorCode::kCancelled, "graph `" + plan_.name + "`: cancelled before " + launch_text(plan_, launch));
  }
  Result<void> launch(uint32_t number);
  Result<void> set_arguments(uint32_t launch);
  Error failed(uint32_t launch, Error failure) const;
  Result<void> finish_on_device();

  bool is_copied(size_t input) const { return !plain_[input] || (device() != nullptr && !inputs_[input].on_device); }
  const Device* device() const { return state_.device ? &*state_.device : nullptr; }
  bool overlaps_input(const void* data, uint64_t bytes, uint32_t but) const {
    for (uint32_t i = 0; i < inputs_.size(); ++i) {
      if (i != but && plain_[i] && overlap(data, bytes, inputs_[i].data, sized_.inputs[i].bytes)) return true;
    }
    return overlapped_bound(data, bytes) != nullptr;
  }

  const BoundInput* overlapped_bound(const void* data, uint64_t bytes) const {
    for (const BoundInput& input : state_.bound.inputs) {
      if (overlap(data, bytes, input.data, input.bytes)) return &input;
    }
    return nullptr;
  }

  const GraphState& state_;
  const graph::Plan& plan_;
  const SizedPlan& sized_;
  const std::span<const ArrayView> inputs_;
  const RunOptions& options_;
  const LaunchOptions launch_options_;
  LaunchTimes times_;
  std::vector<bool> given_on_device_;  // by output
  std::vector<bool> plain_;            // by input
  std::vector<const void*> in_;        // by input
  std::vector<std::byte*> out_;        // by output
  std::vector<OwnedArray> results_;    // those with memory that is not the run's are there before it is allocated
  std::vector<Block> on_device_;       // of results that are copied back, by output
  std::vector<Block> copies_;          // of inputs
  Arena arena_;
  std::vector<std::byte*> bases_;  // by buffer
  std::vector<Argument> arguments_;
  const PreparedPlan* prepared_ = nullptr;
  std::vector<std::byte> blocks_;  // of prepared launches, with this run's addresses
  std::optional<ThreadMemory> workspace_memory_;
  void* workspace_ = nullptr;
  dsl::Bindings counters_;  // of the loops that run, behind the dims
};

Result<void> Run::check_stream(std::span<const ArrayView> outputs) const {
  if (options_.stream == nullptr) return {};
  const std::string here = "graph `" + plan_.name + "` on a stream: ";
  if (options_.launch_ms) return invalid_argument(here + "launches are timed where the run waits for them");
  if (outputs.empty() && !plan_.outputs.empty()) return invalid_argument(here + "results need arrays of the caller's");
  const std::string& kind = options_.stream->device().info().kind;
  if (const std::string own = device() ? device()->info().kind : "cpu"; kind != own) {
    return invalid_argument(here + "it is compiled for " + own + ", and the stream is of " + kind);
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!is_plain(inputs_[i])) return invalid_argument(here + input_text(plan_, i) + " is not row-major and aligned");
    if (device() && !inputs_[i].on_device)
      return invalid_argument(here + input_text(plan_, i) + " is not on the device");
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!device() || outputs[i].on_device) continue;
    return invalid_argument(here + "output `" + plan_.outputs[i].name + "` is not on the device");
  }
  return {};
}

uint32_t Run::donor_of(size_t output) const {
  const uint32_t input = plan_.in_place[output];
  if (input == graph::kNone || !inputs_[input].writable || !plain_[input]) return graph::kNone;
  if (inputs_[input].on_device && device() != nullptr) return graph::kNone;  // results are the host's
  return overlaps_input(inputs_[input].data, sized_.inputs[input].bytes, input) ? graph::kNone : input;
}

Result<void> Run::check_output(size_t output, const ArrayView& array, std::span<const ArrayView> outputs) const {
  const std::string name = "output `" + plan_.outputs[output].name + "`";
  const SizedPlan::Tensor& tensor = sized_.outputs[output];
  const ArrayView expected{plan_.outputs[output].type.element, tensor.shape};
  if (array.element != expected.element || array.shape != expected.shape) {
    return invalid_argument(name + " is " + type_text(expected) + " for these inputs, and its array is " +
                            type_text(array));
  }
  if (auto fine = check_array(array, tensor.bytes, name); !fine) return fine;
  if (!array.writable) return invalid_argument(name + ": its array is read only");
  if (!is_plain(array)) return invalid_argument(name + ": its array is not row-major and aligned");
  for (size_t other = 0; other < output; ++other) {
    if (!overlap(array.data, tensor.bytes, outputs[other].data, sized_.outputs[other].bytes)) continue;
    return invalid_argument(name + " overlaps output `" + plan_.outputs[other].name + "`");
  }
  const uint32_t donor = plan_.in_place[output];
  const bool in_place = donor != graph::kNone && plain_[donor] && inputs_[donor].data == array.data;
  for (uint32_t i = 0; i < inputs_.size(); ++i) {
    if (!plain_[i] || (in_place && i == donor)) continue;
    if (!overlap(array.data, tensor.bytes, inputs_[i].data, sized_.inputs[i].bytes)) continue;
    return invalid_argument(name + " overlaps " + input_text(plan_, i) + ", which is not donated to it");
  }
  if (const BoundInput* input = overlapped_bound(array.data, tensor.bytes)) {
    return invalid_argument(name + " overlaps input `" + input->name + "`, which is bound");
  }
  return {};
}

Result<void> Run::choose_memory(std::span<const ArrayView> outputs) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (auto fine = check_array(inputs_[i], sized_.inputs[i].bytes, input_text(plan_, i)); !fine) return fine;
    plain_.push_back(is_plain(inputs_[i]));
    in_.push_back(inputs_[i].data);
  }
  given_on_device_.resize(plan_.outputs.size());
  for (size_t i = 0; i < plan_.outputs.size(); ++i) {
    const dsl::ElementType element = plan_.outputs[i].type.element;
    const std::vector<int64_t>& shape = sized_.outputs[i].shape;
    if (!outputs.empty()) {
      if (auto fine = check_output(i, outputs[i], outputs); !fine) return fine;
      given_on_device_[i] = outputs[i].on_device;
      results_.emplace_back(element, shape, const_cast<void*>(outputs[i].data), outputs[i].owner);
      continue;
    }
    const uint32_t donor = donor_of(i);
    if (donor == graph::kNone)
      results_.emplace_back();
    else
      results_.emplace_back(element, shape, const_cast<void*>(inputs_[donor].data), inputs_[donor].owner);
  }
  return {};
}

Result<void> Run::check_limit() const {
  if (options_.memory_limit == 0) return {};
  uint64_t results = 0, copies = 0;
  for (size_t i = 0; i < results_.size(); ++i) results += results_[i].data() ? 0 : sized_.outputs[i].bytes;
  for (size_t i = 0; i < inputs_.size(); ++i) copies += is_copied(i) ? sized_.inputs[i].bytes : 0;
  const uint64_t all = sized_.arena_bytes + results + copies;
  if (all <= options_.memory_limit) return {};
  std::string text = "graph `" + plan_.name + "` needs " + std::to_string(all) +
                     " bytes: " + std::to_string(sized_.arena_bytes) + " of arena, " + std::to_string(results) +
                     " of results, " + std::to_string(copies) + " of copies of inputs; the limit is " +
                     std::to_string(options_.memory_limit);
  if (const ArenaUse use = arena_use(plan_, sized_); !use.largest.empty()) {
    text += "; the arena is fullest at " + launch_text(plan_, use.peak) + ", by " + largest_text(plan_, use);
  }
  return error(ErrorCode::kOutOfMemory, std::move(text));
}

Result<void> Run::copy_inputs() {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const uint64_t bytes = sized_.inputs[i].bytes;
    const bool to_device = device() != nullptr && !inputs_[i].on_device;
    if (bytes == 0 || (plain_[i] && !to_device)) continue;
    if (device() != nullptr && !to_device) {
      return invalid_argument(input_text(plan_, i) + ": an array on a device is row-major and aligned here");
    }
    if (!plain_[i]) {
      auto block = Block::allocate(bytes, options_.threads);
      if (!block) return block.error();
      copy_plain(inputs_[i], block->data);
      in_[i] = block->data;
      copies_.push_back(std::move(*block));
    }
    if (!to_device) continue;
    auto block = Block::allocate_on(*device(), bytes, "copies of inputs of graph `" + plan_.name + "`");
    if (!block) return block.error();
    if (auto done = block->device->copy_from({static_cast<const std::byte*>(in_[i]), bytes}); !done) return done;
    in_[i] = block->data;
    copies_.push_back(std::move(*block));
  }
  return {};
}

Result<void> Run::allocate_results() {
  for (size_t i = 0; i < results_.size(); ++i) {
    if (results_[i].data() == nullptr) {
      auto result = OwnedArray::allocate(plan_.outputs[i].type.element, sized_.outputs[i].shape, options_.threads);
      if (!result) return result.error();
      results_[i] = std::move(*result);
    }
    out_.push_back(static_cast<std::byte*>(results_[i].data()));
    if (device() == nullptr) continue;
    on_device_.emplace_back();
    if (given_on_device_[i] || sized_.outputs[i].bytes == 0) continue;
    auto block = Block::allocate_on(*device(), sized_.outputs[i].bytes, "results of graph `" + plan_.name + "`");
    if (!block) return block.error();
    out_[i] = block->data;
    on_device_[i] = std::move(*block);
  }
  return {};
}

void Run::place_buffers(std::byte* arena) {
  using Home = graph::PlannedBuffer::Home;
  for (size_t i = 0; i < plan_.buffers.size(); ++i) {
    const graph::PlannedBuffer& buffer = plan_.buffers[i];
    std::byte* base = nullptr;
    switch (buffer.home) {
      case Home::kInput:  // behind parameters that are read only, as decode_plan() sees to
        base = static_cast<std::byte*>(const_cast<void*>(in_[buffer.index]));
        break;
      case Home::kOutput:
        base = out_[buffer.index];
        break;
      case Home::kArena:
        base = arena + sized_.buffers[i].offset;
        break;
      case Home::kConstant:
        base = state_.constants[buffer.index].data;
        break;
    }
    bases_.push_back(base);
  }
}

Result<void> Run::launch_all() {
  counters_.constexprs.resize(plan_.dims.size() + graph::kMostCounters);
  if (auto ready = use_prepared(); !ready) return ready;
  auto done = prepared_ ? launch_units() : launch_range(0, static_cast<uint32_t>(plan_.launches.size()), 0);
  return done ? times_.finish() : done;
}

Result<void> Run::use_prepared() {
  const bool is_here = device() == nullptr && options_.stream == nullptr && options_.launch_ms == nullptr;
  // Who profiles sees each launch.
  if (!is_here || is_profiled() || !parts_run_at_once()) return {};
  prepared_ = sized_.prepared->get(plan_, sized_, state_.kernels, bases_);
  if (prepared_ == nullptr) return {};
  blocks_ = prepared_->blocks;
  for (const PreparedPlan::Patch& patch : prepared_->patches) {
    const void* address = bases_[patch.buffer] + patch.offset;
    std::memcpy(blocks_.data() + patch.at, &address, sizeof address);
  }
  if (prepared_->workspace_bytes == 0) return {};
  workspace_memory_.emplace(ThreadMemory::Use::kWorkspace);
  workspace_ = workspace_memory_->get(prepared_->workspace_bytes);
  if (workspace_ != nullptr) return {};
  return error(ErrorCode::kOutOfMemory, "graph `" + plan_.name + "`: no memory for " +
                                            std::to_string(prepared_->workspace_bytes) + " bytes of workspace");
}

// Launches [first, last), and those of the loops among them, of which `loop` is the first, as often as they say.
Result<void> Run::launch_range(uint32_t first, uint32_t last, size_t loop) {
  for (uint32_t i = first; i < last;) {
    while (loop < plan_.loops.size() && plan_.loops[loop].first < i) ++loop;
    if (loop == plan_.loops.size() || plan_.loops[loop].first != i) {
      if (auto done = launch(i); !done) return done;
      ++i;
      continue;
    }
    const graph::PlannedLoop& here = plan_.loops[loop];
    std::optional<int64_t>& counter = counters_.constexprs[plan_.dims.size() + here.counter];
    for (int64_t pass = 0; pass < sized_.loop_lengths[loop]; ++pass) {
      counter = pass;
      if (auto done = launch_range(here.first, here.first + here.count, loop + 1); !done) return done;
    }
    counter.reset();
    i += here.count;
    ++loop;
  }
  return {};
}

// Units that are ready in one sequence, others launch by launch.
Result<void> Run::launch_units() {
  const std::span<const PreparedPlan::Unit> units = prepared_->units;
  for (size_t i = 0; i < units.size();) {
    size_t end = i;
    while (end < units.size() && units[end].is_ready) ++end;
    auto done = end > i ? launch_prepared(i, end) : launch_range(units[i].first, units[i].first + units[i].count, 0);
    if (!done) return done;
    i = std::max(end, i + 1);
  }
  return {};
}

Result<void> Run::launch_prepared(size_t first, size_t last) {
  const std::span<const SequenceStep> steps = prepared_->steps_of(first, last);
  const SequenceEnd end =
      run_sequence({steps, blocks_.data(), workspace_, threads_to_use(options_.threads), options_.cancel});
  if (end.code == 0 && !end.is_cancelled) return {};
  const PreparedPlan::Instance& instance = prepared_->instances[steps[end.step].launch];
  if (end.is_cancelled) return cancelled(instance.launch);
  std::ranges::copy(instance.counters, counters_.constexprs.begin() + static_cast<std::ptrdiff_t>(plan_.dims.size()));
  if (auto set = set_arguments(instance.launch); !set) return set;
  const FunctionState& function = *state_.kernels[plan_.launches[instance.launch].kernel].state();
  return failed(instance.launch, failure_of(function, instance.prepared, end, arguments_));
}

Result<void> Run::launch(uint32_t number) {
  if (options_.cancel.stop_requested()) return cancelled(number);
  if (auto set = set_arguments(number); !set) return set;
  if (auto begun = times_.next(number); !begun) return begun;
  auto done = state_.kernels[plan_.launches[number].kernel].launch(arguments_, launch_options_);
  return done ? Result<void>() : failed(number, done.error());
}

Result<void> Run::set_arguments(uint32_t number) {
  arguments_.clear();
  for (const SizedPlan::Argument& known : sized_.arguments_of(number)) {
    SizedPlan::Argument here;
    if (known.varying) {
      auto argument = SizedPlan::at(known, counters_);
      if (!argument) return failed(number, argument.error());
      here = std::move(*argument);
    }
    const SizedPlan::Argument& argument = known.varying ? here : known;
    if (argument.buffer == graph::kNone)
      arguments_.push_back({nullptr, 0, argument.value});
    else
      arguments_.push_back({bases_[argument.buffer] + argument.value, argument.extent, 0});
  }
  return {};
}

Result<std::vector<std::vector<Argument>>> Run::all_arguments() {
  if (auto fine = choose_memory({}); !fine) return fine.error();
  if (auto done = copy_inputs(); !done) return done.error();
  if (auto done = allocate_results(); !done) return done.error();
  auto arena = arena_.take(sized_.arena_bytes, options_, device());
  if (!arena) return arena.error();
  place_buffers(*arena);
  return launch_arguments();
}

// Of loops those of the first pass; none of those that run none.
Result<std::vector<std::vector<Argument>>> Run::launch_arguments() {
  counters_.constexprs.assign(plan_.dims.size() + graph::kMostCounters, 0);
  std::vector<std::vector<Argument>> out;
  for (uint32_t i = 0; i < plan_.launches.size(); ++i) {
    arguments_.clear();
    if (auto set = runs(i) ? set_arguments(i) : Result<void>(); !set) return set.error();
    out.push_back(arguments_);
  }
  counters_.constexprs.clear();
  return out;
}

Result<void> Run::ask_tuner() {
  const Mode mode = state_.tuning.mode;
  if (!asks_tuner(mode) || sized_.tuner_was_asked.load(std::memory_order_acquire)) return {};
  auto launches = launch_arguments();
  if (!launches) return launches.error();
  auto asked = client::ask_tuner(state_, *launches, mode == Mode::kMax, options_.cancel);
  if (asked) sized_.tuner_was_asked.store(true, std::memory_order_release);
  return asked;
}

Error Run::failed(uint32_t launch, Error failure) const {
  failure.message = "graph `" + plan_.name + "`: " + launch_text(plan_, launch) + ": " + failure.message;
  return failure;
}

Result<void> Run::finish_on_device() {
  // The error names the launch that failed.
  if (auto done = device()->default_stream().synchronise(); !done) {
    Error failure = done.error();
    failure.message = "graph `" + plan_.name + "`: " + failure.message;
    return failure;
  }
  for (size_t i = 0; i < on_device_.size(); ++i) {
    if (!on_device_[i].device) continue;
    auto* to = static_cast<std::byte*>(results_[i].data());
    if (auto done = on_device_[i].device->copy_to({to, sized_.outputs[i].bytes}); !done) return done;
  }
  return {};
}

}  // namespace

Result<void> check_array(const ArrayView& array, uint64_t bytes, const std::string& name) {
  if (!array.strides.empty() && array.strides.size() != array.shape.size()) {
    return invalid_argument(name + " has " + std::to_string(array.strides.size()) + " strides for the shape " +
                            type_text(array));
  }
  if (bytes == 0) return {};
  if (array.data == nullptr) return invalid_argument(name + " is " + type_text(array) + ", but its data are null");
  if (array.strides.empty() && array.bytes < bytes) {
    return invalid_argument(name + " is " + type_text(array) + ", which takes " + std::to_string(bytes) +
                            " bytes; there are " + std::to_string(array.bytes));
  }
  return {};
}

Result<std::shared_ptr<const SizedPlan>> sizes_of(const GraphState& state, std::span<const ArrayView> inputs,
                                                  const RunOptions& options) {
  const graph::Plan& plan = state.plan;
  std::map<std::string, int64_t> sizes = options.sizes;
  if (!sizes.empty()) {
    for (const std::string& dim : state.unused_dims) sizes.erase(dim);
  }
  for (const auto& [dim, size] : state.bound.sizes) {
    const auto given = sizes.emplace(dim, size).first;
    if (given->second == size) continue;
    return invalid_argument("graph `" + plan.name + "`: " + dim + " is " + std::to_string(size) +
                            " by what is bound, and was given as " + std::to_string(given->second));
  }
  std::vector<graph::GivenTensor> given;
  given.reserve(inputs.size());
  bool alike = inputs.size() == plan.inputs.size();
  for (size_t i = 0; i < inputs.size(); ++i) {
    given.push_back({inputs[i].element, inputs[i].shape});
    alike = alike && inputs[i].element == plan.inputs[i].type.element &&
            inputs[i].shape.size() == plan.inputs[i].type.shape.size();
  }
  if (alike) {
    std::vector<int64_t> key;
    size_key(plan, given, sizes, key);
    if (auto known = state.sizes.find(key)) return known;
  }
  auto made = size_plan(plan, state.constant_bytes, given, sizes);
  if (made) state.sizes.insert(*made);
  return made;
}

Result<void> prepare_graph(const GraphState& state, std::span<const ArrayView> inputs, const RunOptions& options) {
  auto sized = sizes_of(state, inputs, options);
  if (!sized) return sized.error();
  Run run(state, **sized, inputs, options);
  auto arguments = run.all_arguments();
  if (!arguments) return arguments.error();
  std::vector<Result<void>> done(arguments->size());
  at_once(done.size(), [&](size_t i) {
    if ((*arguments)[i].empty()) return;
    done[i] = state.kernels[state.plan.launches[i].kernel].prepare((*arguments)[i]);
  });
  for (size_t i = 0; i < done.size(); ++i) {
    if (done[i]) continue;
    Error failure = done[i].error();
    failure.message = "graph `" + state.plan.name + "`: " + launch_text(state.plan, i) + ": " + failure.message;
    return failure;
  }
  if (!asks_tuner(state.tuning.mode)) return {};
  auto asked = ask_tuner(state, *arguments, /*waits=*/true, options.cancel);
  if (asked) (*sized)->tuner_was_asked.store(true, std::memory_order_release);
  return asked;
}

Result<std::vector<OwnedArray>> run_graph(const GraphState& state, std::span<const ArrayView> inputs,
                                          std::span<const ArrayView> outputs, const RunOptions& options) {
  Timed timed(profile::Kind::kRun, state.plan.name);
  if (timed.span() != nullptr) timed.span()->device = state.plan.target.substr(0, state.plan.target.find(':'));
  auto sized = sizes_of(state, inputs, options);
  if (!sized) return sized.error();
  return Run(state, **sized, inputs, options).run(outputs);
}

}  // namespace kiln::client
