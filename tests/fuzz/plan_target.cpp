// Any bytes as a plan, or as a request for one: an error, or what keeps all promises.
//
// The first byte chooses the reader: 0 a plan, 1 a request's canonical section alone, else both sections of a request,
// the first behind its length. write_seeds.cpp writes all three.
#include <algorithm>

#include "cbor_mutator.h"
#include "check.h"
#include "kiln/graph/binary.h"
#include "kiln/graph/plan.h"
#include "kiln/graph/plan_request.h"
#include "kiln/graph/verify.h"

namespace kiln::fuzz {
namespace {

using Bytes = std::span<const std::byte>;

// What a client does first.
void check_facts(const graph::Plan& plan) {
  const auto facts = graph::facts_of(plan);
  check(facts.size() == plan.kernels.size(), "each kernel of a plan has facts");
  for (size_t i = 0; i < facts.size(); ++i) {
    check(facts[i].size() == plan.kernels[i].kernel.params.size(), "each parameter of a kernel has a fact");
  }
}

// Without the ops of its kernels it is the same plan.
void check_heads(Bytes bytes, const graph::Plan& plan) {
  const auto heads = graph::decode_plan_heads(bytes);
  expect(heads, "what encode_plan writes is read without ops too");
  check(std::ranges::equal(graph::encode_plan(*heads), bytes), "a plan without ops has the bytes of the whole one");
  check(graph::facts_of(*heads) == graph::facts_of(plan), "kernels without ops have the same facts");
}

// The ops of its kernels may be anything: nobody has read them.
void check_hostile_heads(Bytes bytes) {
  const auto heads = graph::decode_plan_heads(bytes);
  if (!heads) return check_refusal(heads.error());
  check_facts(*heads);
  const auto written = graph::encode_plan(*heads);
  const auto again = graph::decode_plan_heads(written);
  expect(again, "what encode_plan writes of a plan without ops is read again");
  check(graph::encode_plan(*again) == written, "encoding a decoded plan without ops gives the same bytes");
}

void run_plan(Bytes bytes) {
  check_hostile_heads(bytes);
  const auto plan = graph::decode_plan(bytes);
  if (!plan) return check_refusal(plan.error());
  check_facts(*plan);
  const auto written = graph::encode_plan(*plan);
  const auto again = graph::decode_plan(written);
  expect(again, "what encode_plan writes decodes");
  check(graph::encode_plan(*again) == written, "encoding a decoded plan gives the same bytes");
  check_heads(written, *plan);
}

void run_request(Bytes canonical, Bytes debug) {
  const auto request = graph::decode_plan_request(canonical, debug);
  if (!request) return check_refusal(request.error());
  check(graph::is_plan_request(canonical), "what is read as a request for a plan begins like one");
  check(graph::verify(request->graph).ok(), "the graph of a request is verified");
  const auto written = graph::encode_plan_request(*request);
  expect(written, "a decoded request encodes");
  const auto again = graph::decode_plan_request(written->canonical, written->debug);
  expect(again, "what encode_plan_request writes decodes");
  check(again->target == request->target && again->options == request->options, "a request keeps target and options");
  check(graph::key(again->graph) == graph::key(request->graph), "a request keeps its graph");
  const auto twice = graph::encode_plan_request(*again);
  expect(twice, "a request encodes again");
  check(twice->canonical == written->canonical, "encoding a decoded request gives the same bytes");
}

void run(Bytes bytes) {
  if (bytes.empty()) return;
  const auto reader = std::to_integer<uint8_t>(bytes[0]);
  bytes = bytes.subspan(1);
  if (reader == 0) return run_plan(bytes);
  if (reader == 1) return run_request(bytes, {});
  const Sections sections = split_sections(bytes);
  run_request(sections.canonical, sections.debug);
}

}  // namespace
}  // namespace kiln::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kiln::fuzz::run(std::as_bytes(std::span(data, size)));
  return 0;
}
