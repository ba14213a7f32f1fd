// Gradients of bodies and kernels.
//
//   loop    the same number of passes the other way round. Each computes its forward pass again, from what was carried
//           into it and its slices; gradients of what is carried are carried, those of constants add up, those of
//           slices are stacked.
//   cond    a cond of the gradients of both branches
//   call    of those that are computed again (others are inlined before): a call likewise
//   kernel  the body that its author gave
#include "differentiate/driver.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

BodyId body_attr(const Adjoint& a, size_t attr) { return static_cast<BodyId>(int_attr(a.attrs(), attr)); }

// A body on the way back, from its inputs to its outputs.
class BackwardBody {
 public:
  BackwardBody(Adjoint& a, const Body& body) : driver_(*a.driver), trace_(a.trace()), body_(body) {
    trace_.open_body(info(a.op).name + "'s gradient", body.name + "_gradient", SourceLocation(),
                     Trace::Outside::kRefused);
  }
  Tensor input(const char* name, size_t i, const TensorType& type) {
    return trace_.add_input(name + std::to_string(i), type, SourceLocation());
  }
  // Gradients of the body's inputs for those of its outputs, zeros where there are none; of those that are wanted.
  std::vector<Tensor> pull(const std::vector<Tensor>& inputs, const std::vector<Tensor>& output_gradients,
                           const std::vector<bool>& wanted) {
    std::vector<ValueId> ids;
    for (const Tensor& each : inputs) ids.push_back(each.id());
    const std::vector<ValueId> outputs = driver_.forward(body_, ids, wanted);
    std::vector<Tensor> out(inputs.size());
    if (trace_.failed()) return out;
    std::vector<Tensor> seeds(driver_.builder().body().values.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!output_gradients[i].valid()) continue;
      Tensor& seed = seeds[outputs[i]];
      seed = seed.valid() ? seed + output_gradients[i] : output_gradients[i];
    }
    // By input of the open body; those of the forward part are some of them.
    std::vector<bool> here;
    std::vector<size_t> place(inputs.size(), 0);
    const std::vector<Input>& open_inputs = driver_.builder().body().inputs;
    for (size_t k = 0; k < open_inputs.size(); ++k) {
      bool moves = false;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].id() != open_inputs[k].value) continue;
        place[i] = k;
        moves = wanted[i];
      }
      here.push_back(moves);
    }
    const std::vector<Tensor> gradients = driver_.backward(here, std::move(seeds));
    for (size_t i = 0; i < inputs.size() && !trace_.failed(); ++i) {
      if (!wanted[i]) continue;
      const Tensor& found = gradients[place[i]];
      out[i] = found.valid() ? found : zeros_of(trace_.type(inputs[i]));
    }
    return out;
  }
  std::optional<BodyId> close(const std::vector<Tensor>& outputs) {
    if (trace_.failed()) {
      trace_.abandon_body();
      return std::nullopt;
    }
    auto closed = trace_.close_body(outputs, SourceLocation());
    return closed ? std::optional(closed->id) : std::nullopt;
  }

 private:
  Driver& driver_;
  Trace& trace_;
  const Body& body_;
};

// Those of operands from `first` on that are wanted.
std::vector<bool> tail(const std::vector<bool>& flags, size_t first) {
  return {flags.begin() + static_cast<ptrdiff_t>(first), flags.end()};
}

// The gradients of a body as a body: takes its inputs and the gradients of those results that have one.
std::optional<BodyId> gradient_body(Adjoint& a, BodyId id, size_t first) {
  const Body& body = a.driver->source().bodies[id];
  BackwardBody back(a, body);
  const std::vector<bool> wanted = tail(a.wanted, first);
  std::vector<Tensor> inputs, gradients(a.results.size()), outputs;
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    inputs.push_back(back.input("x", i, a.driver->source().type(body, body.inputs[i].value)));
  }
  for (size_t i = 0; i < a.results.size(); ++i) {
    if (a.has_g(i)) gradients[i] = back.input("g", i, a.driver->source().type(body, body.outputs[i].value));
  }
  const std::vector<Tensor> all = back.pull(inputs, gradients, wanted);
  for (size_t i = 0; i < all.size(); ++i) {
    if (wanted[i]) outputs.push_back(all[i]);
  }
  return back.close(outputs);
}

void give_wanted(Adjoint& a, const std::vector<Tensor>& gradients) {
  size_t next = 0;
  for (size_t i = 0; i < a.operands.size() && next < gradients.size(); ++i) {
    if (a.wanted[i]) a.give(i, gradients[next++]);
  }
}

// What the bodies of a gradient take: operands from `first` on, then gradients; those that one of them uses.
std::vector<Tensor> used_operands(Adjoint& a, size_t first, std::initializer_list<BodyId> bodies) {
  std::vector<Tensor> all(a.operands.begin() + static_cast<ptrdiff_t>(first), a.operands.end()), out;
  for (const Tensor& g : a.result_gradients) {
    if (g.valid()) all.push_back(g);
  }
  std::vector<bool> used(all.size(), false);
  for (const BodyId body : bodies) {
    const std::vector<bool> here = a.driver->builder().used_inputs(body);
    for (size_t i = 0; i < used.size(); ++i) used[i] = used[i] || here[i];
  }
  for (const BodyId body : bodies) a.driver->builder().prune_body(body, used);
  for (size_t i = 0; i < all.size(); ++i) {
    if (used[i]) out.push_back(all[i]);
  }
  return out;
}

void cond_rule(Adjoint& a) {
  auto then = gradient_body(a, body_attr(a, 0), 1);
  auto otherwise = then ? gradient_body(a, body_attr(a, 1), 1) : std::nullopt;
  if (!otherwise) return;
  std::vector<Tensor> operands = used_operands(a, 1, {*then, *otherwise});
  operands.insert(operands.begin(), a.x(0));
  give_wanted(a, a.trace().emit_all(kCond, operands, {int64_t{*then}, int64_t{*otherwise}}, SourceLocation()));
}

void call_rule(Adjoint& a) {
  auto body = gradient_body(a, body_attr(a, 0), 0);
  if (!body) return;
  give_wanted(a,
              a.trace().emit_all(kCall, used_operands(a, 0, {*body}), {int64_t{*body}, int64_t{1}}, SourceLocation()));
}

// The operands of the loop that goes back, in order: gradients carried, gradients of constants; what was carried,
// slices, gradients of stacks; constants.
class LoopGradient {
 public:
  explicit LoopGradient(Adjoint& a)
      : a_(a),
        kept_(a.driver->kept(body_attr(a, 0), a.results.size())),
        body_(a.driver->source().bodies[kept_.original]),
        carried_(static_cast<size_t>(int_attr(a.attrs(), 1))),
        scanned_(static_cast<size_t>(int_attr(a.attrs(), 2))),
        moves_(a.driver->loop_inputs(kept_.original, int_attr(a.attrs(), 1), a.wanted)) {}

  void run() {
    BackwardBody back(a_, body_);
    std::vector<Tensor> inputs(body_.inputs.size()), output_gradients(kept_.results), outputs;
    std::vector<Tensor> sums(body_.inputs.size());
    for (size_t i = 0; i < carried_; ++i) {
      if (moves_[i]) output_gradients[i] = take(back.input("d", i, type(i)), initial(i));
    }
    for (size_t i = first_constant(); i < inputs.size(); ++i) {
      if (moves_[i]) sums[i] = take(back.input("sum", i, type(i)), zeros_outside(type(i)));
    }
    const size_t carried = operands_.size();
    for (size_t i = 0; i < carried_; ++i) inputs[i] = take(back.input("kept", i, type(i)), a_.y(kept_.results + i));
    for (size_t i = carried_; i < first_constant(); ++i) inputs[i] = take(back.input("x", i, type(i)), a_.x(i));
    for (size_t i = carried_; i < kept_.results; ++i) {
      if (a_.has_g(i)) output_gradients[i] = take(back.input("g", i, output_type(i)), a_.g(i));
    }
    const size_t scanned = operands_.size() - carried;
    for (size_t i = first_constant(); i < inputs.size(); ++i) inputs[i] = take(back.input("c", i, type(i)), a_.x(i));
    const std::vector<Tensor> all = back.pull(inputs, output_gradients, moves_);
    for (size_t i = 0; i < carried_; ++i) {
      if (moves_[i]) outputs.push_back(all[i]);
    }
    for (size_t i = first_constant(); i < inputs.size(); ++i) {
      if (moves_[i]) outputs.push_back(all[i].valid() ? sums[i] + all[i] : sums[i]);
    }
    for (size_t i = carried_; i < first_constant(); ++i) {
      if (moves_[i]) outputs.push_back(all[i]);
    }
    if (auto id = back.close(outputs)) emit(*id, carried, scanned);
  }

 private:
  size_t first_constant() const { return carried_ + scanned_; }
  const TensorType& type(size_t i) const { return a_.driver->source().type(body_, body_.inputs[i].value); }
  const TensorType& output_type(size_t i) const { return a_.driver->source().type(body_, body_.outputs[i].value); }
  Tensor take(const Tensor& inside, const Tensor& outside) {
    operands_.push_back(outside);
    return inside;
  }
  // Of the body around, while the one inside is open: given its value when the loop is emitted.
  Tensor initial(size_t i) {
    if (a_.has_g(i)) return a_.g(i);
    return zeros_outside(type(i));
  }
  Tensor zeros_outside(const TensorType& type) {
    zeros_.emplace_back(operands_.size(), type);
    return {};
  }
  void emit(BodyId id, size_t carried, size_t scanned) {
    for (const auto& [place, type] : zeros_) operands_[place] = zeros_of(type);
    std::vector<bool> stays = a_.driver->builder().used_inputs(id);
    std::fill(stays.begin(), stays.begin() + static_cast<ptrdiff_t>(carried), true);
    a_.driver->builder().prune_body(id, stays);
    std::vector<Tensor> operands;
    int64_t still_scanned = 0;
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (!stays[i]) continue;
      operands.push_back(operands_[i]);
      if (i >= carried && i < carried + scanned) ++still_scanned;
    }
    const std::vector<Tensor> results = a_.trace().emit_all(
        kLoop, operands,
        {int64_t{id}, static_cast<int64_t>(carried), still_scanned, a_.attrs()[3], int64_t{!flag_attr(a_.attrs(), 4)}},
        SourceLocation());
    if (results.empty()) return;
    size_t next = 0;
    const auto give = [&](size_t i) {
      if (!moves_[i]) return;
      if (a_.wants(i)) a_.give(i, results[next]);
      ++next;
    };
    for (size_t i = 0; i < carried_; ++i) give(i);
    for (size_t i = first_constant(); i < body_.inputs.size(); ++i) give(i);
    for (size_t i = carried_; i < first_constant(); ++i) give(i);
  }

  Adjoint& a_;
  Driver::KeptLoop kept_;
  const Body& body_;
  size_t carried_, scanned_;
  std::vector<bool> moves_;  // by input of the body
  std::vector<Tensor> operands_;
  std::vector<std::pair<size_t, TensorType>> zeros_;
};

void loop_rule(Adjoint& a) { LoopGradient(a).run(); }

void kernel_rule(Adjoint& a) {
  const TileKernel& kernel = a.trace().graph().kernels[static_cast<size_t>(int_attr(a.attrs(), 0))];
  if (kernel.gradient == kNone) {
    return a.trace().report(a.loc, "kernel: @" + kernel.name + " has no gradient; give one where the kernel is used");
  }
  const Body& body = a.driver->source().bodies[kernel.gradient];
  std::vector<ValueId> inputs;
  for (const Tensor& operand : a.operands) inputs.push_back(operand.id());
  for (const Tensor& result : a.results) inputs.push_back(result.id());
  for (size_t i = 0; i < a.results.size(); ++i) inputs.push_back(a.g(i).id());
  const std::vector<ValueId> gradients = a.driver->forward(body, inputs, std::vector<bool>(body.inputs.size(), false));
  size_t next = 0;
  for (size_t i = 0; i < a.operands.size() && next < gradients.size(); ++i) {
    if (!dsl::is_float(a.x(i).element())) continue;
    if (a.wants(i)) a.give(i, a.trace().tensor(gradients[next]));
    ++next;
  }
}

}  // namespace

void add_control_rules(GradientTable& table) {
  table.all(GradientKind::kControl, {kLoop}, loop_rule);
  table.all(GradientKind::kControl, {kCond}, cond_rule);
  table.all(GradientKind::kControl, {kCall}, call_rule);
  table.all(GradientKind::kControl, {kKernel}, kernel_rule);
}

}  // namespace kiln::graph
