#include "case_makers.h"

namespace kiln::quickstart {

std::vector<Case> quickstart_cases(Size size) {
  const std::pair<const char*, std::vector<Case> (*)(Size)> families[] = {{"elements", element_cases},
                                                                          {"rows", row_cases},
                                                                          {"order", order_cases},
                                                                          {"products", product_cases},
                                                                          {"convolutions", convolution_cases},
                                                                          {"attention", attention_cases},
                                                                          {"images", image_cases},
                                                                          {"training", training_cases},
                                                                          {"quantised", quantised_cases}};
  std::vector<Case> out;
  for (const auto& [family, cases] : families) {
    for (Case& test : cases(size)) {
      test.family = family;
      out.push_back(std::move(test));
    }
  }
  return out;
}

}  // namespace kiln::quickstart
