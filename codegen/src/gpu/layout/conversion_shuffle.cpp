// Conversions by shuffles.
//
// Let lane d want, for its register r, register r' of lane l': linear maps A, B, C, D with r' = A·r ^ B·d and
// l' = C·r ^ D·d (and a part that depends on the warp alone). A shuffle gives each lane one register of one other, and
// a lane may offer but one. So in round k lane d asks not for register k but for k ^ F·d, with F such that lanes which
// want different registers ask different lanes: no vector of the kernel of Q = C·F ^ D may be one that P = A·F ^ B does
// not take to 0. F sends the kernel of D, which is what hurts, to registers whose C·r is outside D's image. As many
// rounds as registers are then enough, and no fewer would do. Where there are too few such registers (lanes of the
// result that differ in nothing but which registers they copy), what is left of the kernel becomes further rounds, of
// which each lane accepts one.
#include "gpu/layout/conversion_shuffle.h"

#include <algorithm>
#include <bit>

namespace kiln::codegen::gpu {
namespace {

// Where each bit of the result's index finds its element: which register, and which lane.
struct Sources {
  Columns registers, lanes;

  void add(Bits packed, int register_bits) {
    registers.push_back(packed & ((Bits{1} << register_bits) - 1));
    lanes.push_back(packed >> register_bits);
  }
};
struct Wanted {
  Sources of_register, of_lane, of_warp, of_block;
};

std::optional<Wanted> find_sources(const Layout& source, const Layout& result) {
  const int register_bits = source.bits(Dim::kRegister);
  const Span registers(source.bases(Dim::kRegister));
  Span warp = registers;
  warp.insert(source.bases(Dim::kLane));
  Wanted out;
  for (Bits element : result.bases(Dim::kRegister)) {
    const std::optional<Bits> at = warp.solve(element);
    if (!at) return std::nullopt;
    out.of_register.add(*at, register_bits);
  }
  for (int i = 0; i < result.bits(Dim::kLane); ++i) {
    // From the lane itself if it has it.
    const Bits element = result.bases(Dim::kLane)[i];
    std::optional<Bits> at = registers.solve(element ^ source.bases(Dim::kLane)[i]);
    if (at) {
      *at |= Bits{1} << (register_bits + i);
    } else {
      at = warp.solve(element);
    }
    if (!at) return std::nullopt;
    out.of_lane.add(*at, register_bits);
  }
  for (auto [dim, sources] : {std::pair{Dim::kWarp, &out.of_warp}, {Dim::kBlock, &out.of_block}}) {
    for (int i = 0; i < result.bits(dim); ++i) {
      const std::optional<Bits> at = warp.solve(result.bases(dim)[i] ^ source.bases(dim)[i]);
      if (!at) return std::nullopt;
      sources->add(*at, register_bits);
    }
  }
  return out;
}

// A basis of the lanes, in parts, and the registers that F gives to its vectors.
struct LaneBasis {
  Columns vectors;
  Columns shift;          // F of each vector
  size_t first_left = 0;  // from here on: vectors of Q's kernel that P does not take to 0, each a bit of further rounds
};

LaneBasis choose_lane_basis(const Wanted& wanted, const Columns& rounds) {
  const Sources& lane = wanted.of_lane;
  const int lane_bits = static_cast<int>(lane.lanes.size());
  const Columns still = kernel(lane.lanes);
  const Columns harmless = multiply(still, kernel(multiply(lane.registers, still)));
  LaneBasis out;
  out.vectors = harmless;
  const Columns moving = completion(still, unit_vectors(lane_bits));
  out.vectors.insert(out.vectors.end(), moving.begin(), moving.end());
  out.shift.assign(out.vectors.size(), 0);
  Columns left;
  Span image(lane.lanes);
  for (Bits vector : completion(harmless, still)) {
    const auto outside = [&](Bits round) { return !image.contains(multiply(wanted.of_register.lanes, round)); };
    const auto round = std::ranges::find_if(rounds, outside);
    if (round == rounds.end()) {
      left.push_back(vector);
    } else {
      image.insert(multiply(wanted.of_register.lanes, *round));
      out.vectors.push_back(vector);
      out.shift.push_back(*round);
    }
  }
  out.first_left = out.vectors.size();
  out.vectors.insert(out.vectors.end(), left.begin(), left.end());
  out.shift.resize(out.vectors.size(), 0);
  return out;
}

}  // namespace

int64_t Shuffle::shuffles() const {
  if (!butterfly()) return rounds();
  int64_t out = 0;
  for (int64_t round = 0; round < rounds(); ++round) {
    out += multiply(fetch.bases(Dim::kRegister), static_cast<Bits>(round)) != 0;
  }
  return out;
}

int64_t Shuffle::selects() const {
  const int steps = Span(offer.bases(Dim::kLane)).rank() + Span(put.bases(Dim::kLane)).rank();
  return rounds() * (steps + (accept.element_bits() > 0 ? 1 : 0));
}

bool Shuffle::butterfly() const {
  const auto is_zero = [](Bits bits) { return bits == 0; };
  return fetch.bases(Dim::kLane) == unit_vectors(fetch.bits(Dim::kLane)) &&
         std::ranges::all_of(fetch.bases(Dim::kWarp), is_zero) &&
         std::ranges::all_of(fetch.bases(Dim::kBlock), is_zero);
}

std::optional<Shuffle> plan_shuffle(const Layout& source, const Layout& result, int element_bits) {
  const std::optional<Wanted> wanted = find_sources(source, result);
  if (!wanted) return std::nullopt;
  const Sources &of_register = wanted->of_register, &of_lane = wanted->of_lane;
  const int lane_bits = result.bits(Dim::kLane);

  Shuffle out;
  const size_t pack_bits = element_bits >= 32 ? 0 : std::countr_zero(32u / static_cast<unsigned>(element_bits));
  out.put_pack = kernel(of_register.lanes);
  out.put_pack.resize(std::min(out.put_pack.size(), pack_bits));
  out.offer_pack = multiply(of_register.registers, out.put_pack);
  const Columns rounds = completion(out.put_pack, unit_vectors(result.bits(Dim::kRegister)));

  const LaneBasis basis = choose_lane_basis(*wanted, rounds);
  const Span lanes(basis.vectors);
  const int left = static_cast<int>(basis.vectors.size() - basis.first_left);
  Columns f, p, q, accept;  // of each lane bit
  for (Bits lane : unit_vectors(lane_bits)) {
    const Bits made_of = *lanes.solve(lane);
    f.push_back(multiply(basis.shift, made_of));
    p.push_back(multiply(of_register.registers, f.back()) ^ multiply(of_lane.registers, lane));
    q.push_back(multiply(of_register.lanes, f.back()) ^ multiply(of_lane.lanes, lane));
    accept.push_back(made_of >> basis.first_left);
  }
  // Which register a lane offers: what those want who ask it. Lanes whom nobody asks may offer anything.
  Columns asking(basis.vectors.begin(), basis.vectors.begin() + static_cast<ptrdiff_t>(basis.first_left));
  Columns asked = multiply(q, asking);
  for (Bits lane : completion(asked, unit_vectors(lane_bits))) asked.push_back(lane), asking.push_back(0);
  const Span asked_lanes(asked);
  const auto offered = [&](Bits lane) { return multiply(p, multiply(asking, *asked_lanes.solve(lane))); };

  out.offer = Layout({source.size(Dim::kRegister)});
  out.fetch = Layout({result.size(Dim::kLane)});
  out.put = Layout({result.size(Dim::kRegister)});
  out.accept = Layout({int64_t{1} << left});
  const auto add = [&](Dim dim, Bits offer, Bits fetch, Bits put, Bits accept) {
    out.offer.add(dim, offer), out.fetch.add(dim, fetch), out.put.add(dim, put), out.accept.add(dim, accept);
  };
  for (Bits round : rounds) {
    const Bits lane = multiply(of_register.lanes, round);
    add(Dim::kRegister, multiply(of_register.registers, round) ^ offered(lane), lane, round, 0);
  }
  for (int i = 0; i < left; ++i) {
    add(Dim::kRegister, multiply(of_lane.registers, basis.vectors[basis.first_left + i]), 0, 0, Bits{1} << i);
  }
  for (int i = 0; i < lane_bits; ++i) add(Dim::kLane, offered(Bits{1} << i), q[i], f[i], accept[i]);
  for (auto [dim, sources] : {std::pair{Dim::kWarp, &wanted->of_warp}, {Dim::kBlock, &wanted->of_block}}) {
    for (int i = 0; i < result.bits(dim); ++i) {
      add(dim, sources->registers[i] ^ offered(sources->lanes[i]), sources->lanes[i], 0, 0);
    }
  }
  return out;
}

}  // namespace kiln::codegen::gpu
