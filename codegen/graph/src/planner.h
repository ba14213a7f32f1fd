// A plan as it grows, launch by launch.
#pragma once

#include "kernel_writer.h"
#include "kiln/graph/plan.h"
#include "kiln/graph/plan_request.h"

namespace kiln::planner {

using graph::Graph;
using graph::kNone;
using graph::Plan;
using graph::PlannedArgument;
using graph::PlannedBuffer;

Expr bytes_of(const graph::TensorType& type);

// So many bytes into a buffer of the plan.
struct Place {
  uint32_t buffer = kNone;
  Expr offset = {};
};

class Planner {
 public:
  Planner(const Graph& graph, const graph::PlanRequest& request)
      : graph_(graph),
        body_(graph.main()),
        request_(request),
        apart_(request.options.apart.begin(), request.options.apart.end()) {}

  Result<Plan> plan();

 private:
  void describe();
  uint32_t buffer_of(ValueId value);
  uint32_t add_buffer(PlannedBuffer buffer);
  bool lies_in_plan(const graph::Node& node) const;
  uint32_t constant_of(const graph::Node& node);
  bool is_empty(const Group& group) const;
  Error placed(Error failure, const Group& group) const;
  Result<void> add_group(uint32_t number);
  Result<void> add_copies(uint32_t group);
  void add_launch(const WrittenKernel& written, std::string name, graph::Location loc,
                  const std::map<ValueId, uint32_t>& buffers, std::vector<NodeId> ops = {});
  uint32_t kernel_of(graph::PlannedKernel kernel);
  Result<void> add_copy(ValueId from, uint32_t output);
  Result<void> add_loop(uint32_t number);
  Result<void> add_move(const graph::TensorType& type, const Place& from, const Place& to, graph::Location loc);
  void embed(const Plan& body, const std::vector<Place>& places);
  std::pair<uint32_t, uint32_t> span_of(uint32_t launch) const;
  void lay_out();
  void find_in_place();
  std::vector<NodeId> ops_of(uint32_t group) const;
  std::vector<NodeId> guests(uint32_t group) const;
  Result<void> add_groups();

  const Graph& graph_;
  const graph::Body& body_;
  const graph::PlanRequest& request_;
  Plan plan_;
  Grouping grouping_;
  std::set<std::tuple<uint32_t, ValueId, ValueId>> in_place_;  // launch, read, written
  std::set<NodeId> apart_;
  uint32_t failed_ = 0;  // the group that is written
  std::map<ValueId, uint32_t> buffers_;
  std::map<std::vector<std::byte>, uint32_t> kernels_;  // by their encoding
};

}  // namespace kiln::planner
