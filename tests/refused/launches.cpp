#include <array>
#include <vector>

#include "kiln/client/client.h"
#include "kiln/client/gpu.h"

using namespace kiln::lang;
using kiln::DeviceBuffer;
using kiln::Function;
using kiln::LaunchOptions;
inline const Function<Ptr<const f32>, Ptr<f32>, i32, f32> scale;
inline const Function<i1, i64, u32, f64, bf16> scalars;
inline std::vector<float> x, y;
inline const std::vector<float> fixed;

// refused: a float for an int parameter: are two arguments exchanged?
#if RIGHT
auto done = scale(x.data(), y.data(), 9, 2.0f);
#else
auto done = scale(x.data(), y.data(), 2.0f, 9);
#endif

// refused: an int for a float parameter: are two arguments exchanged? Write 2.0f, or float(n)
#if RIGHT
auto done = scale.launch({.threads = 1}, x, y, 9, float(9));
#else
auto done = scale.launch({.threads = 1}, x, y, 9, 9);
#endif

// refused: a narrowing launch
#if RIGHT
auto done = scale(x, y, int32_t(x.size()), 2.0f);
#else
auto done = scale(x, y, x.size(), 2.0f);
#endif

// refused: a narrowing launch
#if RIGHT
auto done = scale(x, y, int16_t(1), 2.0f);
#else
auto done = scale(x, y, 1, 2.0);
#endif

// refused: a narrowing launch
#if RIGHT
auto done = scalars(true, 7u, 7u, 2.0f, kiln::bf16::from(1));
#else
auto done = scalars(true, 7, 7, 2.0f, kiln::bf16::from(1));
#endif

// refused: an i1 parameter takes a bool
#if RIGHT
auto done = scalars.prepare(false, 7, uint8_t(7), 2.0, kiln::bf16::from(1));
#else
auto done = scalars.prepare(1, 7, uint8_t(7), 2.0, kiln::bf16::from(1));
#endif

// refused: f16, bf16 and f8 parameters a kiln::f16 and so on
#if RIGHT
auto done = scalars(false, 7, uint16_t(7), 2.0, kiln::bf16::from(1.0f));
#else
auto done = scalars(false, 7, uint16_t(7), 2.0, 1.0f);
#endif

// refused: a const one where the kernel may write
#if RIGHT
auto done = scale(fixed, y, 1, 2.0f);
#else
auto done = scale(x, fixed, 1, 2.0f);
#endif

// refused: an array of other elements than the Ptr parameter's
#if RIGHT
float a[4];
std::array<float, 4> b;
auto done = scale(a, b, 1, 2.0f);
#else
double a[4];
auto done = scale(a, y, 1, 2.0f);
#endif

// refused: a Ptr parameter takes an array (std::vector, std::span, DeviceBuffer) of its elements or a pointer
#if RIGHT
auto done = scale(static_cast<const float*>(x.data()), std::span(y).subspan(0), 1, 2.0f);
#else
auto done = scale(static_cast<const double*>(nullptr), y, 1, 2.0f);
#endif

// refused: a temporary array is gone before a GPU has run the kernel
#if RIGHT
auto launch(const DeviceBuffer<float>& on_device) { return scale(on_device, on_device, 1, 2.0f); }
#else
auto launch(kiln::Result<DeviceBuffer<float> > made) { return scale(std::move(*made), nullptr, 1, 2.0f); }
#endif
