//! Functions that are compiled several times, for processors with more instructions than the target of the compilation
//! has. A call executes the first version whose features the processor has.

/// Defines a function `name(parameters)` that evaluates `portable`, a block with a call of an inlined function, with a
/// list per version: the features that the version requires. The lists are in the order of preference.
macro_rules! per_processor {
    (
        $(#[doc = $doc:literal])+
        $visibility:vis fn $name:ident($($parameter:ident: $kind:ty),+) -> $result:ty $portable:block
        x86_64: $($features:tt),+;
    ) => {
        $(#[doc = $doc])+
        #[inline]
        $visibility fn $name($($parameter: $kind),+) -> $result {
            #[cfg(target_arch = "x86_64")]
            {
                per_processor!(@versions ($($parameter),+) ($($parameter: $kind),+) $result, $portable $($features),+);
            }
            $portable
        }
    };
    (@versions $arguments:tt $parameters:tt $result:ty, $portable:block $($features:tt),+) => {
        $(per_processor!(@version $arguments $parameters $result, $portable $features);)+
    };
    (@version $arguments:tt $parameters:tt $result:ty, $portable:block [$($feature:tt),+]) => {
        if $(std::arch::is_x86_feature_detected!($feature))&&+ {
            $(#[target_feature(enable = $feature)])+
            fn version $parameters -> $result $portable
            // SAFETY: the processor has all features of this version.
            return unsafe { version $arguments };
        }
    };
}
pub(crate) use per_processor;
