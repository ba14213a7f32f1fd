#include "lines.h"

#include "kiln/dsl/library.h"

namespace kiln::planner {

using lang::Value;

namespace {

constexpr int64_t kTile = 1024;

Value as_i64(const lang::Const& number) {
  return lang::cast(lang::full({}, number, ElementType::kI32), ElementType::kI64);
}

}  // namespace

LineLayout line_layout(const GroupNest& group, int64_t most_places) {
  LineLayout out;
  const IndexSpace& space = group.nest.space;
  for (size_t i = 0; i < group.axes.size(); ++i) {
    if (group.is_reduced[i]) {
      out.along = group.axes[i];
    } else {
      out.programs.push_back(group.axes[i]);
    }
  }
  out.is_last = group.axes.empty() || group.is_reduced.back() || out.along == LineLayout::kNone;
  if (out.along != LineLayout::kNone) out.along_block = block_for(space.extent(out.along), most_places);
  if (!out.programs.empty()) {
    out.across = out.programs.back();
    out.programs.pop_back();
    // Lines that lie side by side in memory are read together; of others as many as a tile has room for.
    const int64_t most =
        out.is_last ? kTile / out.along_block : std::clamp<int64_t>(kTile * 4 / out.along_block, 16, 256);
    out.across_block = block_for(space.extent(out.across), std::max<int64_t>(1, most));
  }
  return out;
}

void set_long_lines(dsl::Kernel& kernel, const std::string& block, const GroupNest& group) {
  constexpr int64_t kLong = 8192, kFew = 256, kWarps = 16;
  int64_t length = 1, lines = 1;
  for (size_t i = 0; i < group.axes.size(); ++i) {
    const auto extent = group.nest.space.extent(group.axes[i]).as_constant();
    int64_t& count = group.is_reduced[i] ? length : lines;
    if (!extent || __builtin_mul_overflow(count, *extent, &count)) return;
  }
  if (length <= kLong || lines > kFew) return;
  for (const char* target : {"cuda", "amd"}) kernel.target_defaults[target] = {{block, kLong}, {"num_warps", kWarps}};
}

std::vector<ConstParam> line_consts(const LineLayout& layout) {
  std::vector<ConstParam> out{{"ALONG", layout.along_block}};
  if (layout.has_lines()) out.push_back({"ACROSS", layout.across_block});
  return out;
}

lang::Shape LineWriter::shape(const lang::Const& places) const {
  if (!layout_.has_lines()) return {places};
  return layout_.is_last ? lang::Shape{across_, places} : lang::Shape{places, across_};
}

Value LineWriter::along_lanes() const {
  const Value lanes = lang::arange(0, along_);
  return layout_.has_lines() ? lang::expand_dims(lanes, 1 - axis()) : lanes;
}

void LineWriter::bind_along(const Value& start) {
  if (layout_.along == LineLayout::kNone) return;
  const Value lanes = along_lanes();
  emitter_.bind(
      layout_.along,
      {.start = start, .lanes = lanes, .mask = lanes + start < emitter_.number(space_.extent(layout_.along))});
}

void LineWriter::bind_programs() {
  ProgramAxes programs;
  for (const size_t axis : layout_.programs) programs.add(emitter_.number(space_.extent(axis)));
  if (layout_.has_lines()) programs.add(lang::cdiv(emitter_.number(space_.extent(layout_.across)), across_));
  const std::vector<Value> places = programs.places();
  for (size_t i = 0; i < layout_.programs.size(); ++i) emitter_.bind(layout_.programs[i], {.start = places[i]});
  if (!layout_.has_lines()) return;
  const Value start = places.back() * as_i64(across_);
  const Value lanes = lang::expand_dims(lang::arange(0, across_), axis());
  emitter_.bind(
      layout_.across,
      {.start = start, .lanes = lanes, .mask = lanes + start < emitter_.number(space_.extent(layout_.across))});
}

}  // namespace kiln::planner
