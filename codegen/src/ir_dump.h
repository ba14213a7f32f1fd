// The IR as text after each pass that a request asks for: `ir:PASS`, `ir:instantiate` for what the first is given,
// `ir:all` for that and what each pass of every target leaves, or `ir` for what the last of them does.
#pragma once

#include "passes/pass.h"

namespace kiln::codegen {

class IrDump {
 public:
  // `emit`: of the request.
  explicit IrDump(const std::string& emit);

  bool is_wanted() const { return !wanted_.empty(); }
  // Whether it is complete once the passes of every target have run.
  bool is_early() const;
  const std::string& wanted() const { return wanted_; }

  void launch(std::string_view entry) { launch_ = entry; }
  void after(std::string_view pass, const PrintIr& print);

  // By launch, where there are several. Of attempts at the same launch, the last one's.
  std::string text() const;

  static constexpr std::string_view kInstantiate = "instantiate", kAll = "all";

 private:
  struct Part {
    std::string launch, text;
  };
  std::string wanted_, launch_;
  std::vector<Part> parts_;
};

}  // namespace kiln::codegen
