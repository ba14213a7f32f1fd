#include "launches/words.h"

#include <algorithm>
#include <map>

#include "kiln/dsl/op_builder.h"
#include "kiln/dsl/rewrite.h"

namespace kiln::codegen {
namespace {

using dsl::ElementType;
using dsl::Op;
using dsl::OpBuilder;
using dsl::OpCode;
using dsl::ValueId;

ElementType unsigned_of(int64_t bytes) {
  return bytes == 8   ? ElementType::kU64
         : bytes == 4 ? ElementType::kU32
         : bytes == 2 ? ElementType::kU16
                      : ElementType::kU8;
}

class Words {
 public:
  Words(dsl::Kernel& kernel, ElementType word) : kernel_(kernel), word_(word) {}

  void run(size_t first_pointer) {
    for (size_t i = first_pointer; i < kernel_.params.size(); ++i) {
      dsl::Param& param = kernel_.params[i];
      element_[param.value] = std::exchange(param.type.element, word_);
      kernel_.values[param.value].type.element = word_;
    }
    dsl::rewrite_ops(kernel_, [this](Op& op, std::vector<Op>& out) { rewrite(op, out); });
  }

 private:
  void rewrite(Op& op, std::vector<Op>& out) {
    const auto pointer = op.operands.empty() ? element_.end() : element_.find(op.operands[0]);
    if (pointer == element_.end()) {
      out.push_back(std::move(op));
    } else if (op.code == OpCode::kLoad) {
      load(out, std::move(op), pointer->second);
    } else if (op.code == OpCode::kStore) {
      OpBuilder build(kernel_, out, op.loc);
      op.operands[1] = to_word(build, op.operands[1]);
      out.push_back(std::move(op));
    } else if (op.results.empty()) {  // an assumption
      out.push_back(std::move(op));
    } else {  // a pointer again
      element_[op.results[0]] = pointer->second;
      kernel_.values[op.results[0]].type.element = word_;
      out.push_back(std::move(op));
    }
  }

  void load(std::vector<Op>& out, Op op, ElementType element) {
    OpBuilder build(kernel_, out, op.loc);
    if (op.operands.size() > 2) op.operands[2] = to_word(build, op.operands[2]);
    from_word(build, build.add(OpCode::kLoad, op.operands, op.attrs), element);
    out.back().results = op.results;
  }

  ValueId to_word(OpBuilder& build, ValueId x) {
    const ElementType element = build.type(x).element;
    const ElementType same_width = unsigned_of(dsl::info(element).bytes);
    if (dsl::is_float(element)) x = build.add(OpCode::kBitcast, {x}, {same_width});
    return build.type(x).element == word_ ? x : build.add(OpCode::kCast, {x}, {word_});
  }

  // At least one op.
  ValueId from_word(OpBuilder& build, ValueId x, ElementType element) {
    if (!dsl::is_float(element)) return build.add(OpCode::kCast, {x}, {element});
    const ElementType same_width = unsigned_of(dsl::info(element).bytes);
    if (same_width != word_) x = build.add(OpCode::kCast, {x}, {same_width});
    return build.add(OpCode::kBitcast, {x}, {element});
  }

  dsl::Kernel& kernel_;
  const ElementType word_;
  std::map<ValueId, ElementType> element_;  // what pointers into the workspace pointed to
};

}  // namespace

void hand_on_words(LaunchSequence& sequence) {
  const size_t first = sequence.kernel_params + 1;
  std::vector<ElementType> elements;
  for (size_t i = first; i < sequence.steps.back().kernel.params.size(); ++i) {
    elements.push_back(sequence.steps.back().kernel.params[i].type.element);
  }
  if (std::ranges::count(elements, elements[0]) == std::ssize(elements)) return;
  const auto bytes_of = [](ElementType element) { return int64_t{dsl::info(element).bytes}; };
  const int64_t word = bytes_of(*std::ranges::max_element(elements, {}, bytes_of));
  int64_t end = 0;
  for (size_t i = 0; i < elements.size(); ++i) {
    const bool is_last = i + 1 == elements.size();
    const int64_t bytes =
        (is_last ? sequence.workspace_bytes : sequence.workspace_offsets[i + 1]) - sequence.workspace_offsets[i];
    sequence.workspace_offsets[i] = std::exchange(end, end + bytes / bytes_of(elements[i]) * word);
  }
  sequence.workspace_bytes = end;
  for (LaunchStep& step : sequence.steps) {
    // Earlier steps have the pointers that there were then.
    if (step.kernel.params.size() > first) Words(step.kernel, unsigned_of(word)).run(first);
  }
}

}  // namespace kiln::codegen
