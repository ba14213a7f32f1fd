#include "cpu/carried_tiles.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "kiln/dsl/traits.h"

namespace kiln::codegen::cpu {
namespace {

// Tiles of one walk, of which each takes registers and code in every chunk; those that read each other stay together.
constexpr size_t kMostTogether = 64;

// Which places in scratch values are computed from, when they are computed now.
class PlacesRead {
 public:
  struct Read {
    size_t place;
    bool elementwise;
  };
  using Reads = llvm::SmallVector<Read, 2>;  // in the order of places

  PlacesRead(const Context& ctx, const std::vector<CarriedTile>& tiles) : ctx_(ctx) {
    for (size_t i = 0; i < tiles.size(); ++i) {
      if (tiles[i].offset) places_[*tiles[i].offset] = i;
    }
  }

  const Reads& of(ValueId id) {
    if (const auto known = known_.find(id); known != known_.end()) return known->second;
    Reads made = made_now(id);
    return known_[id] = std::move(made);
  }

 private:
  Reads made_now(ValueId id) {
    const auto& slot = ctx_.slots[id];
    const Op* op = ctx_.schedule.definition[id];
    Reads out;
    if (op && !ctx_.type(id).is_scalar() && !(slot && slot->valid_under.empty())) out = of_operands(*op);
    if (!slot) return out;
    const auto place = places_.find(slot->offset);
    if (place == places_.end()) return out;
    llvm::erase_if(out, [&](const Read& read) { return read.place == place->second; });
    return merged(out, {{place->second, true}});
  }

  Reads of_operands(const Op& op) {
    Reads out;
    for (ValueId operand : op.operands) out = merged(out, of(operand));
    if (!is_elementwise(op)) {
      for (Read& read : out) read.elementwise = false;
    }
    return out;
  }

  static Reads merged(const Reads& a, const Reads& b) {
    if (a.empty() || b.empty()) return a.empty() ? b : a;
    Reads out;
    for (auto x = a.begin(), y = b.begin(); x != a.end() || y != b.end();) {
      if (y == b.end() || (x != a.end() && x->place < y->place)) {
        out.push_back(*x++);
      } else if (x == a.end() || y->place < x->place) {
        out.push_back(*y++);
      } else {
        out.push_back({x->place, x->elementwise && y->elementwise});
        ++x, ++y;
      }
    }
    return out;
  }

  const Context& ctx_;
  std::unordered_map<uint64_t, size_t> places_;  // by offset
  std::unordered_map<ValueId, Reads> known_;
};

}  // namespace

CarriedTiles::CarriedTiles(const Context& ctx, std::vector<CarriedTile> tiles)
    : ctx_(ctx), tiles_(std::move(tiles)), readers_(tiles_.size()), reads_(tiles_.size()) {
  PlacesRead places(ctx, tiles_);
  for (size_t i = 0; i < tiles_.size(); ++i) {
    if (!tiles_[i].offset) continue;
    for (const PlacesRead::Read& read : places.of(tiles_[i].next)) {
      readers_[read.place].push_back({i, read.elementwise});
      reads_[i].push_back(read.place);
    }
  }
}

std::vector<std::vector<size_t>> CarriedTiles::in_place_together() const {
  std::map<std::vector<int64_t>, size_t> number_of;
  std::vector<std::vector<size_t>> by_shape, out;
  for (size_t i = 0; i < tiles_.size(); ++i) {
    const auto& next = ctx_.slots[tiles_[i].next];
    const bool stays = next && next->offset == tiles_[i].offset;
    if (!tiles_[i].offset || stays) continue;
    const auto [at, is_new] = number_of.try_emplace(dsl::concrete_shape(ctx_.type(tiles_[i].next)), by_shape.size());
    if (is_new) by_shape.emplace_back();
    by_shape[at->second].push_back(i);
  }
  for (const std::vector<size_t>& alike : by_shape) {
    if (alike.size() < 2) continue;
    const std::vector<size_t> group = largest_fitting(alike);
    if (group.size() < 2) continue;
    if (group.size() <= kMostTogether) {
      out.push_back(group);
    } else {
      for (std::vector<size_t>& part : connected(group)) out.push_back(std::move(part));
    }
  }
  return out;
}

// Where one leaves, those go too whose old tiles it reads.
std::vector<size_t> CarriedTiles::largest_fitting(const std::vector<size_t>& group) const {
  std::vector<bool> stays(tiles_.size());
  for (size_t i : group) stays[i] = true;
  const auto fits = [&](size_t i) {
    return llvm::all_of(readers_[i], [&](const Reader& reader) { return stays[reader.tile] && reader.elementwise; });
  };
  std::vector<size_t> todo = group;
  while (!todo.empty()) {
    const size_t i = todo.back();
    todo.pop_back();
    if (!stays[i] || fits(i)) continue;
    stays[i] = false;
    todo.insert(todo.end(), reads_[i].begin(), reads_[i].end());
  }
  std::vector<size_t> out;
  llvm::copy_if(group, std::back_inserter(out), [&](size_t i) { return stays[i]; });
  return out;
}

// A large group in parts that read nothing of each other.
std::vector<std::vector<size_t>> CarriedTiles::connected(const std::vector<size_t>& group) const {
  std::vector<bool> waits(tiles_.size());
  for (size_t i : group) waits[i] = true;
  std::vector<std::vector<size_t>> out;
  for (size_t first : group) {
    if (!waits[first]) continue;
    std::vector<size_t> part = {first};
    waits[first] = false;
    const auto add = [&](size_t i) {
      if (waits[i]) part.push_back(i);
      waits[i] = false;
    };
    for (size_t next = 0; next < part.size(); ++next) {
      for (size_t i : reads_[part[next]]) add(i);
      for (const Reader& reader : readers_[part[next]]) add(reader.tile);
    }
    if (!out.empty() && out.back().size() + part.size() <= kMostTogether) {
      out.back().insert(out.back().end(), part.begin(), part.end());
    } else {
      out.push_back(std::move(part));
    }
  }
  return out;
}

}  // namespace kiln::codegen::cpu
