package org.apache.spark.sql.catalyst.util;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import org.apache.spark.QueryContext;
import scala.Function0;

/**
 * Spark's own, but that nothing is allocated while nothing overflows.
 *
 * Generated code comes here for every sum and every window. Spark's class makes a closure each time,
 * in a way that only Java's full compiler makes cheap, and nodes run with the quick one. What
 * overflows is left to Spark, which knows what to say. `Build` leaves this out where Spark's class
 * has a method that this one has not.
 */
public final class MathUtils {
    private static final String SPARKS = "org.apache.spark.sql.catalyst.util.MathUtils$";

    private MathUtils() {}

    public static int addExact(int a, int b) {
        int c = a + b;
        if (((a ^ c) & (b ^ c)) < 0) {
            return ((Integer) sparks("addExact", new Class[] {int.class, int.class}, new Object[] {Integer.valueOf(a), Integer.valueOf(b)})).intValue();
        }
        return c;
    }

    public static int addExact(int a, int b, QueryContext context) {
        int c = a + b;
        if (((a ^ c) & (b ^ c)) < 0) {
            return ((Integer) sparks("addExact", new Class[] {int.class, int.class, QueryContext.class}, new Object[] {Integer.valueOf(a), Integer.valueOf(b), context})).intValue();
        }
        return c;
    }

    public static long addExact(long a, long b) {
        long c = a + b;
        if (((a ^ c) & (b ^ c)) < 0) {
            return ((Long) sparks("addExact", new Class[] {long.class, long.class}, new Object[] {Long.valueOf(a), Long.valueOf(b)})).longValue();
        }
        return c;
    }

    public static long addExact(long a, long b, QueryContext context) {
        long c = a + b;
        if (((a ^ c) & (b ^ c)) < 0) {
            return ((Long) sparks("addExact", new Class[] {long.class, long.class, QueryContext.class}, new Object[] {Long.valueOf(a), Long.valueOf(b), context})).longValue();
        }
        return c;
    }

    public static int subtractExact(int a, int b) {
        int c = a - b;
        if (((a ^ b) & (a ^ c)) < 0) {
            return ((Integer) sparks("subtractExact", new Class[] {int.class, int.class}, new Object[] {Integer.valueOf(a), Integer.valueOf(b)})).intValue();
        }
        return c;
    }

    public static int subtractExact(int a, int b, QueryContext context) {
        int c = a - b;
        if (((a ^ b) & (a ^ c)) < 0) {
            return ((Integer) sparks("subtractExact", new Class[] {int.class, int.class, QueryContext.class}, new Object[] {Integer.valueOf(a), Integer.valueOf(b), context})).intValue();
        }
        return c;
    }

    public static long subtractExact(long a, long b) {
        long c = a - b;
        if (((a ^ b) & (a ^ c)) < 0) {
            return ((Long) sparks("subtractExact", new Class[] {long.class, long.class}, new Object[] {Long.valueOf(a), Long.valueOf(b)})).longValue();
        }
        return c;
    }

    public static long subtractExact(long a, long b, QueryContext context) {
        long c = a - b;
        if (((a ^ b) & (a ^ c)) < 0) {
            return ((Long) sparks("subtractExact", new Class[] {long.class, long.class, QueryContext.class}, new Object[] {Long.valueOf(a), Long.valueOf(b), context})).longValue();
        }
        return c;
    }

    public static int multiplyExact(int a, int b) {
        long c = (long) a * (long) b;
        if ((int) c != c) {
            return ((Integer) sparks("multiplyExact", new Class[] {int.class, int.class}, new Object[] {Integer.valueOf(a), Integer.valueOf(b)})).intValue();
        }
        return (int) c;
    }

    public static int multiplyExact(int a, int b, QueryContext context) {
        long c = (long) a * (long) b;
        if ((int) c != c) {
            return ((Integer) sparks("multiplyExact", new Class[] {int.class, int.class, QueryContext.class}, new Object[] {Integer.valueOf(a), Integer.valueOf(b), context})).intValue();
        }
        return (int) c;
    }

    public static long multiplyExact(long a, long b) {
        if ((int) a != a || (int) b != b) {
            return ((Long) sparks("multiplyExact", new Class[] {long.class, long.class}, new Object[] {Long.valueOf(a), Long.valueOf(b)})).longValue();
        }
        return a * b;
    }

    public static long multiplyExact(long a, long b, QueryContext context) {
        if ((int) a != a || (int) b != b) {
            return ((Long) sparks("multiplyExact", new Class[] {long.class, long.class, QueryContext.class}, new Object[] {Long.valueOf(a), Long.valueOf(b), context})).longValue();
        }
        return a * b;
    }

    public static int floorDiv(int a, int b) {
        if (b <= 0) {
            return ((Integer) sparks("floorDiv", new Class[] {int.class, int.class}, new Object[] {Integer.valueOf(a), Integer.valueOf(b)})).intValue();
        }
        return Math.floorDiv(a, b);
    }

    public static long floorDiv(long a, long b) {
        if (b <= 0) {
            return ((Long) sparks("floorDiv", new Class[] {long.class, long.class}, new Object[] {Long.valueOf(a), Long.valueOf(b)})).longValue();
        }
        return Math.floorDiv(a, b);
    }

    public static int floorMod(int a, int b) {
        if (b <= 0) {
            return ((Integer) sparks("floorMod", new Class[] {int.class, int.class}, new Object[] {Integer.valueOf(a), Integer.valueOf(b)})).intValue();
        }
        return Math.floorMod(a, b);
    }

    public static long floorMod(long a, long b) {
        if (b <= 0) {
            return ((Long) sparks("floorMod", new Class[] {long.class, long.class}, new Object[] {Long.valueOf(a), Long.valueOf(b)})).longValue();
        }
        return Math.floorMod(a, b);
    }

    public static byte negateExact(byte a) {
        if (a == Byte.MIN_VALUE) {
            return ((Byte) sparks("negateExact", new Class[] {byte.class}, new Object[] {Byte.valueOf(a)})).byteValue();
        }
        return (byte) -a;
    }

    public static short negateExact(short a) {
        if (a == Short.MIN_VALUE) {
            return ((Short) sparks("negateExact", new Class[] {short.class}, new Object[] {Short.valueOf(a)})).shortValue();
        }
        return (short) -a;
    }

    public static int negateExact(int a) {
        if (a == Integer.MIN_VALUE) {
            return ((Integer) sparks("negateExact", new Class[] {int.class}, new Object[] {Integer.valueOf(a)})).intValue();
        }
        return (int) -a;
    }

    public static long negateExact(long a) {
        if (a == Long.MIN_VALUE) {
            return ((Long) sparks("negateExact", new Class[] {long.class}, new Object[] {Long.valueOf(a)})).longValue();
        }
        return (long) -a;
    }

    public static int toIntExact(long a) {
        if ((int) a != a) {
            return ((Integer) sparks("toIntExact", new Class[] {long.class}, new Object[] {Long.valueOf(a)})).intValue();
        }
        return (int) a;
    }

    public static byte pmod(byte a, byte n) {
        byte r = (byte) (a % n);
        return r < 0 ? (byte) ((r + n) % n) : r;
    }

    public static short pmod(short a, short n) {
        short r = (short) (a % n);
        return r < 0 ? (short) ((r + n) % n) : r;
    }

    public static int pmod(int a, int n) {
        int r = (int) (a % n);
        return r < 0 ? (int) ((r + n) % n) : r;
    }

    public static long pmod(long a, long n) {
        long r = (long) (a % n);
        return r < 0 ? (long) ((r + n) % n) : r;
    }

    public static float pmod(float a, float n) {
        float r = (float) (a % n);
        return r < 0 ? (float) ((r + n) % n) : r;
    }

    public static double pmod(double a, double n) {
        double r = (double) (a % n);
        return r < 0 ? (double) ((r + n) % n) : r;
    }

    public static long doubleToLong(double a, QueryContext context) {
        return ((Long) sparks("doubleToLong", new Class[] {double.class, QueryContext.class}, new Object[] {Double.valueOf(a), context})).longValue();
    }

    public static Object withOverflow(Function0 f, String hint, QueryContext context) {
        return ((Object) sparks("withOverflow", new Class[] {Function0.class, String.class, QueryContext.class}, new Object[] {f, hint, context}));
    }

    public static String withOverflow$default$2() {
        return "";
    }

    public static QueryContext withOverflow$default$3() {
        return null;
    }

    public static String withOverflowCode(String code, String context) {
        return ((String) sparks("withOverflowCode", new Class[] {String.class, String.class}, new Object[] {code, context}));
    }

    private static Object sparks(String name, Class[] types, Object[] arguments) {
        try {
            Class whole = Class.forName(SPARKS);
            Method method = whole.getMethod(name, types);
            return method.invoke(whole.getField("MODULE$").get(null), arguments);
        } catch (InvocationTargetException error) {
            Throwable cause = error.getCause();
            if (cause instanceof RuntimeException) throw (RuntimeException) cause;
            throw new IllegalStateException(cause);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }
}
