// Rows are gone through side by side, word by word:
//
//   own = the least word of each group of threads, of which there are as many as are wanted, or more
//   low, high = the least and the greatest own: as many as are wanted are up to high
//   if fewer than `candidates` are below high: low = high
//   while more than `candidates` are up to high, and low < high:
//     middle = (low + high) / 2
//     if as many as are wanted are up to middle: high = middle; else low = middle + 1
//   if more than `candidates` are up to high: the same with the next word of those that are equal to it; else the bound
//   has ones there
//
// Of random words there is a round or none: in groups of 64 the greatest of 64 least ones has about 256 up to it.
#include "gpu/ops/select_bounds.h"

#include "gpu/analysis/all_threads.h"
#include "gpu/branches.h"
#include "gpu/shared/convert.h"

namespace kiln::codegen::gpu {
namespace {

class BoundSearch {
 public:
  BoundSearch(Context& ctx, const RecordRows& rows)
      : ctx_(ctx), ir_(ctx.ir), rows_(rows), count_(rows.registers.size()) {}

  Result<std::vector<Registers>> run() {
    const Word word = first_word();
    auto bounds = bisect(word, first_range(word));
    if (!bounds) return bounds.error();
    auto rest = further_bounds(word, *bounds);
    if (!rest) return rest.error();
    std::vector<Registers> out = {bounds->high};
    out.insert(out.end(), rest->begin(), rest->end());
    return out;
  }

 private:
  // A word of each register's record, and where that stands by the words before it: below their bound, or equal to it.
  struct Word {
    int number = 0;
    Registers of{};
    Registers below{}, equal{};  // empty for the first word: equal all
  };
  struct Range {
    Registers low, high;
  };
  struct Bounds {
    Registers high, up_to;  // how many are
  };

  Value* u32(int64_t x) { return ir_.getInt32(static_cast<uint32_t>(x)); }
  Value* ones() { return u32(0xffffffff); }
  Value* least(Value* x, Value* y) { return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x, y); }
  Value* greatest(Value* x, Value* y) { return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, x, y); }
  Value* are_few(Value* count) { return ir_.CreateICmpULE(count, u32(rows_.candidates)); }
  bool is_last(const Word& word) const { return word.number + 1 == rows_.words; }

  Registers sums(const Registers& own) {
    const auto sum = [&](Value* x, Value* y) { return ir_.CreateAdd(x, y); };
    std::vector<Agreed> values;
    values.reserve(own.size());
    for (Value* x : own) values.push_back({x, sum});
    return over_all_threads(ctx_, values);
  }
  Range range(const Registers& least_of, const Registers& greatest_of) {
    const auto less = [&](Value* x, Value* y) { return least(x, y); };
    const auto greater = [&](Value* x, Value* y) { return greatest(x, y); };
    std::vector<Agreed> values;
    for (size_t i = 0; i < count_; ++i) {
      values.push_back({least_of[i], less});
      values.push_back({greatest_of[i], greater});
    }
    const std::vector<Value*> found = over_all_threads(ctx_, values);
    Range out;
    for (size_t i = 0; i < found.size(); ++i) (i % 2 == 0 ? out.low : out.high).push_back(found[i]);
    return out;
  }

  Value* count_own(size_t row, llvm::function_ref<Value*(size_t reg)> condition) {
    Value* out = u32(0);
    for (size_t reg : rows_.registers[row]) out = ir_.CreateAdd(out, ir_.CreateZExt(condition(reg), ir_.getInt32Ty()));
    return out;
  }
  Value* by_words(const Word& word, size_t reg, Value* by_this) {
    if (word.equal.empty()) return by_this;
    return ir_.CreateOr(word.below[reg], ir_.CreateAnd(word.equal[reg], by_this));
  }
  Value* is_up_to(const Word& word, size_t reg, Value* x) {
    return by_words(word, reg, ir_.CreateICmpULE(word.of[reg], x));
  }
  Value* is_below(const Word& word, size_t reg, Value* x) {
    return by_words(word, reg, ir_.CreateICmpULT(word.of[reg], x));
  }

  void read(Word& word) {
    for (const std::vector<size_t>& registers : rows_.registers) {
      for (size_t reg : registers) {
        if (word.of.size() <= reg) word.of.resize(reg + 1);
        word.of[reg] = rows_.word_of(word.number, reg);
      }
    }
  }
  Word first_word() {
    Word out;
    read(out);
    return out;
  }
  Word next_word(const Word& before, const Registers& bound) {
    Word out{before.number + 1, before.of, before.of, before.of};
    read(out);
    for (size_t i = 0; i < count_; ++i) {
      for (size_t reg : rows_.registers[i]) {
        out.below[reg] = is_below(before, reg, bound[i]);
        out.equal[reg] = ir_.CreateICmpEQ(before.of[reg], bound[i]);
        if (!before.equal.empty()) out.equal[reg] = ir_.CreateAnd(before.equal[reg], out.equal[reg]);
      }
    }
    return out;
  }

  // By groups of threads as large as may be; of fewer threads than are wanted, the least and the greatest word.
  Range first_range(const Word& word) {
    int64_t group = 1;
    while (group < ctx_.block.lanes && ctx_.block.threads() / (2 * group) >= rows_.wanted) group *= 2;
    Registers lows, highs;
    for (const std::vector<size_t>& registers : rows_.registers) {
      Value *low = word.of[registers[0]], *high = low;
      for (size_t reg : registers) {
        low = least(low, word.of[reg]);
        high = greatest(high, word.of[reg]);
      }
      for (unsigned lanes = 1; lanes < group; lanes *= 2) low = least(low, shuffle_xor(ctx_, low, lanes));
      lows.push_back(low);
      highs.push_back(ctx_.block.threads() >= rows_.wanted ? low : high);
    }
    return range(lows, highs);
  }

  // Of those that are equal to the bound so far; ones where no more need be told apart.
  Range next_range(const Word& word, const Registers& up_to) {
    Registers lows, highs;
    for (const std::vector<size_t>& registers : rows_.registers) {
      Value *low = ones(), *high = u32(0);
      for (size_t reg : registers) {
        low = least(low, ir_.CreateSelect(word.equal[reg], word.of[reg], ones()));
        high = greatest(high, ir_.CreateSelect(word.equal[reg], word.of[reg], u32(0)));
      }
      lows.push_back(low);
      highs.push_back(high);
    }
    Range out = range(lows, highs);
    for (size_t i = 0; i < count_; ++i) {
      Value* done = are_few(up_to[i]);
      for (Value** end : {&out.low[i], &out.high[i]}) *end = ir_.CreateSelect(done, ones(), *end);
    }
    return out;
  }

  Result<Bounds> bisect(const Word& word, const Range& range) {
    Registers own;
    for (size_t i = 0; i < count_; ++i) {
      own.push_back(count_own(i, [&](size_t reg) { return is_up_to(word, reg, range.high[i]); }));
      own.push_back(count_own(i, [&](size_t reg) { return is_below(word, reg, range.high[i]); }));
    }
    const Registers known = sums(own);
    Registers start = range.low;
    start.insert(start.end(), range.high.begin(), range.high.end());
    for (size_t i = 0; i < count_; ++i) {
      start.push_back(known[2 * i]);
      if (is_last(word) && rows_.differ) continue;  // the bound is one of the candidates
      Value* has_place = ir_.CreateICmpULT(known[2 * i + 1], u32(rows_.candidates));  // for one that is equal, too
      start[i] = ir_.CreateSelect(has_place, range.high[i], range.low[i]);
    }
    const auto any_goes_on = [&](const Registers& now) {
      Value* out = ir_.getFalse();
      for (size_t i = 0; i < count_; ++i) out = ir_.CreateOr(out, goes_on(now, i));
      return ctx_.target.any_lane(ir_, out);
    };
    auto found = emit_while(ctx_, "select", start, any_goes_on,
                            [&](const Registers& now) -> Result<Registers> { return halved(word, now); });
    if (!found) return found.error();
    const auto part = [&](size_t i) { return found->begin() + static_cast<ptrdiff_t>(i * count_); };
    return Bounds{Registers(part(1), part(2)), Registers(part(2), part(3))};
  }

  // `now`: low, high, and how many are up to high, of each row.
  Value* goes_on(const Registers& now, size_t row) {
    Value* is_open = ir_.CreateICmpULT(now[row], now[count_ + row]);
    return ir_.CreateAnd(is_open, ir_.CreateNot(are_few(now[2 * count_ + row])));
  }
  Registers halved(const Word& word, const Registers& now) {
    Registers middle, up_to, next = now;
    for (size_t i = 0; i < count_; ++i) {
      Value* half = ir_.CreateLShr(ir_.CreateSub(now[count_ + i], now[i]), uint64_t{1});
      middle.push_back(ir_.CreateAdd(now[i], half));
      up_to.push_back(count_own(i, [&](size_t reg) { return is_up_to(word, reg, middle[i]); }));
    }
    up_to = sums(up_to);
    for (size_t i = 0; i < count_; ++i) {
      Value *on = goes_on(now, i), *enough = ir_.CreateICmpUGE(up_to[i], u32(rows_.wanted));
      Value *down = ir_.CreateAnd(on, enough), *up = ir_.CreateAnd(on, ir_.CreateNot(enough));
      next[i] = ir_.CreateSelect(up, ir_.CreateAdd(middle[i], u32(1)), now[i]);
      next[count_ + i] = ir_.CreateSelect(down, middle[i], now[count_ + i]);
      next[2 * count_ + i] = ir_.CreateSelect(down, up_to[i], now[2 * count_ + i]);
    }
    return next;
  }

  Result<std::vector<Registers>> further_bounds(const Word& before, const Bounds& known) {
    if (is_last(before)) return std::vector<Registers>();
    Value* any = ir_.getFalse();
    for (Value* up_to : known.up_to) any = ir_.CreateOr(any, ir_.CreateNot(are_few(up_to)));
    const auto words = static_cast<size_t>(rows_.words - before.number - 1);
    const Registers all(words * count_, ones());
    auto found = emit_if(ctx_, ctx_.target.any_lane(ir_, any), "select.equal", all, [&]() -> Result<Registers> {
      const Word word = next_word(before, known.high);
      auto bounds = bisect(word, next_range(word, known.up_to));
      if (!bounds) return bounds.error();
      auto rest = further_bounds(word, *bounds);
      if (!rest) return rest.error();
      Registers out = bounds->high;
      for (const Registers& each : *rest) out.insert(out.end(), each.begin(), each.end());
      return out;
    });
    if (!found) return found.error();
    std::vector<Registers> out;
    for (size_t i = 0; i < words; ++i) {
      const auto begin = found->begin() + static_cast<ptrdiff_t>(i * count_);
      out.emplace_back(begin, begin + static_cast<ptrdiff_t>(count_));
    }
    return out;
  }

  Context& ctx_;
  Builder& ir_;
  const RecordRows& rows_;
  const size_t count_;
};

}  // namespace

Result<std::vector<Registers>> find_bounds(Context& ctx, const RecordRows& rows) {
  return BoundSearch(ctx, rows).run();
}

}  // namespace kiln::codegen::gpu
