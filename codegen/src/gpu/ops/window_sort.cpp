// Batcher's bitonic sort: stage k brings groups of 2^k neighbours into order by k steps, of which the one of bit i
// compares records whose places differ in that bit. A thread holds all values of some bits, a *window*: five bits of 32
// registers.
//
//   stages 1 to 5                in window 0, bits 0 to 4
//   stages 6 to 10, a loop       to window 1, bits 5 to 9; its steps; to window 0; its steps
//   stages 11 to 13, a loop      to window 2, to window 1, to window 0
//
// Groups are ordered ascending and descending by turns. Those that descend hold complements meanwhile, so that all
// comparisons are alike: a minimum and a maximum.
#include "gpu/ops/window_sort.h"

#include "gpu/branches.h"
#include "gpu/shared/convert.h"

namespace kiln::codegen::gpu {
namespace {

class WindowSort {
 public:
  WindowSort(Context& ctx, const Layout& layout, int axis, int used_bits)
      : ctx_(ctx),
        ir_(ctx.ir),
        layout_(layout),
        axis_(axis),
        bits_(layout.axis_bits(axis)),
        words_((used_bits + 31) / 32),
        place_(ctx.thread_coordinate(layout, axis)) {
    while (width_ < bits_ && window_bit(layout, width_)) ++width_;
  }

  Result<Registers> sort(Registers x) {
    complement(x, descends(ir_.getInt32(static_cast<uint32_t>(width_))));
    for (int stage = 1; stage <= width_; ++stage) {
      for (int bit = stage; bit-- > 0;) compare(x, layout_, bit, stage);
    }
    for (int window = 1; window * width_ < bits_; ++window) {
      auto sorted = stages_of(std::move(x), window);
      if (!sorted) return sorted;
      x = std::move(*sorted);
    }
    return x;
  }

 private:
  // The register bit that holds a bit of the axis; 0 if none does.
  Bits window_bit(const Layout& layout, int bit) const {
    const Columns& registers = layout.bases(Dim::kRegister);
    const auto found = std::ranges::find(registers, Bits{1} << (layout.axis_offset(axis_) + bit));
    return found == registers.end() ? 0 : Bits{1} << (found - registers.begin());
  }

  // The layout in which bits window·width … are in registers: each has changed places with one of window 0. Those of
  // window 0 that stay are the lowest, so that neighbours travel together.
  Layout layout_of(int window) const {
    const int first = window * width_, count = std::min(width_, bits_ - first);
    const int offset = layout_.axis_offset(axis_);
    Layout out(layout_.shape());
    for (Dim dim : {Dim::kRegister, Dim::kLane, Dim::kWarp}) {
      for (Bits element : layout_.bases(dim)) {
        for (int i = 0; window > 0 && i < count; ++i) {
          const Bits inner = Bits{1} << (offset + width_ - count + i), outer = Bits{1} << (offset + first + i);
          element = element == inner ? outer : element == outer ? inner : element;
        }
        out.add(dim, element);
      }
    }
    return out;
  }

  // A step of stages up to `stage`: groups whose place has bit `stage` in a register descend.
  void compare(Registers& x, const Layout& layout, int bit, int stage) {
    const Bits partner = window_bit(layout, bit), descends = stage < width_ ? window_bit(layout, stage) : 0;
    for (Bits reg = 0; reg < x.size(); ++reg) {
      if ((reg & partner) != 0) continue;
      Value *&low = x[reg], *&high = x[reg | partner];
      Value* less = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, low, high);
      Value* greater = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, low, high);
      low = (reg & descends) == 0 ? less : greater;
      high = (reg & descends) == 0 ? greater : less;
    }
  }

  // Whether the thread's group of a stage beyond window 0 descends; the last one's has no such bit.
  Value* descends(Value* stage) { return ir_.CreateTrunc(ir_.CreateLShr(place_, stage), ir_.getInt1Ty()); }
  void complement(Registers& x, Value* condition) {
    Value* flips = ir_.CreateSExt(condition, x[0]->getType());
    for (Value*& record : x) record = ir_.CreateXor(record, flips);
  }

  // The stages whose highest step is in the window.
  Result<Registers> stages_of(Registers x, int window) {
    const int first = window * width_ + 1, last = std::min((window + 1) * width_, bits_);
    if (first == last) return stage(std::move(x), window, ir_.getInt32(static_cast<uint32_t>(first)));
    Registers carried = std::move(x);
    carried.push_back(ir_.getInt32(static_cast<uint32_t>(first)));
    auto out = emit_while(
        ctx_, "sort.stages", carried,
        [&](const Registers& now) { return ir_.CreateICmpULE(now.back(), ir_.getInt32(static_cast<uint32_t>(last))); },
        [&](const Registers& now) -> Result<Registers> {
          auto next = stage(Registers(now.begin(), now.end() - 1), window, now.back());
          if (next) next->push_back(ir_.CreateAdd(now.back(), ir_.getInt32(1)));
          return next;
        });
    if (out) out->pop_back();
    return out;
  }

  Result<Registers> stage(Registers x, int window, Value* number) {
    complement(x, ir_.CreateXor(descends(ir_.CreateSub(number, ir_.getInt32(1))), descends(number)));
    Layout from = layout_;
    for (int at = window; at >= 0; --at) {
      const Layout to = layout_of(at);
      auto moved = move(x, from, to);
      if (!moved) return moved;
      x = std::move(*moved);
      from = to;
      const int first = at * width_;
      for (int bit = std::min(first + width_, bits_); bit-- > first;) {
        // Of the highest window a stage has the steps below its own bit.
        auto compared = step(x, to, bit, at == window && bit > first ? number : nullptr);
        if (!compared) return compared;
        x = std::move(*compared);
      }
    }
    return x;
  }

  Result<Registers> step(Registers x, const Layout& layout, int bit, Value* stage) {
    const auto compared = [&]() -> Result<Registers> {
      Registers out = x;
      compare(out, layout, bit, bits_);
      return out;
    };
    if (!stage) return compared();
    Value* has = ir_.CreateICmpUGT(stage, ir_.getInt32(static_cast<uint32_t>(bit)));
    return emit_if(ctx_, has, "sort.step", x, compared);
  }

  // Word by word, so that few bytes of shared memory are taken.
  Result<Registers> move(const Registers& x, const Layout& from, const Layout& to) {
    llvm::Type *record = x[0]->getType(), *word = ir_.getInt32Ty();
    Registers out(x.size());
    for (int i = 0; i < words_; ++i) {
      const auto shift = static_cast<uint64_t>(32 * i);
      Registers part;
      for (Value* whole : x) part.push_back(ir_.CreateTrunc(shift == 0 ? whole : ir_.CreateLShr(whole, shift), word));
      auto moved = convert(ctx_, part, dsl::scalar_type(ElementType::kU32), from, to);
      if (!moved) return moved;
      for (size_t reg = 0; reg < out.size(); ++reg) {
        Value* wide = ir_.CreateZExt((*moved)[reg], record);
        if (shift != 0) wide = ir_.CreateShl(wide, shift);
        out[reg] = out[reg] ? ir_.CreateOr(out[reg], wide) : wide;
      }
    }
    return out;
  }

  Context& ctx_;
  Builder& ir_;
  const Layout& layout_;
  const int axis_, bits_, words_;
  int width_ = 0;
  Value* place_;  // of the thread's records along the axis: the bits beyond window 0
};

}  // namespace

Result<Registers> sort_in_windows(Context& ctx, const Registers& records, int used_bits, const Layout& layout,
                                  int axis) {
  return WindowSort(ctx, layout, axis, used_bits).sort(records);
}

}  // namespace kiln::codegen::gpu
