package org.apache.spark.sql.catalyst.util;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import org.apache.spark.QueryContext;
import scala.Function0;

/**
 * Spark's own, but that nothing is allocated while nothing overflows.
 *
 * Generated code comes here for every sum and every window. Spark's makes a closure each time,
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
            Object[] given = {Integer.valueOf(a), Integer.valueOf(b)};
            return ((Integer) sparks("addExact", given)).intValue();
        }
        return c;
    }

    public static int addExact(int a, int b, QueryContext context) {
        int c = a + b;
        if (((a ^ c) & (b ^ c)) < 0) {
            Object[] given = {Integer.valueOf(a), Integer.valueOf(b), context};
            return ((Integer) sparks("addExact", given)).intValue();
        }
        return c;
    }

    public static long addExact(long a, long b) {
        long c = a + b;
        if (((a ^ c) & (b ^ c)) < 0) {
            Object[] given = {Long.valueOf(a), Long.valueOf(b)};
            return ((Long) sparks("addExact", given)).longValue();
        }
        return c;
    }

    public static long addExact(long a, long b, QueryContext context) {
        long c = a + b;
        if (((a ^ c) & (b ^ c)) < 0) {
            Object[] given = {Long.valueOf(a), Long.valueOf(b), context};
            return ((Long) sparks("addExact", given)).longValue();
        }
        return c;
    }

    public static int subtractExact(int a, int b) {
        int c = a - b;
        if (((a ^ b) & (a ^ c)) < 0) {
            Object[] given = {Integer.valueOf(a), Integer.valueOf(b)};
            return ((Integer) sparks("subtractExact", given)).intValue();
        }
        return c;
    }

    public static int subtractExact(int a, int b, QueryContext context) {
        int c = a - b;
        if (((a ^ b) & (a ^ c)) < 0) {
            Object[] given = {Integer.valueOf(a), Integer.valueOf(b), context};
            return ((Integer) sparks("subtractExact", given)).intValue();
        }
        return c;
    }

    public static long subtractExact(long a, long b) {
        long c = a - b;
        if (((a ^ b) & (a ^ c)) < 0) {
            Object[] given = {Long.valueOf(a), Long.valueOf(b)};
            return ((Long) sparks("subtractExact", given)).longValue();
        }
        return c;
    }

    public static long subtractExact(long a, long b, QueryContext context) {
        long c = a - b;
        if (((a ^ b) & (a ^ c)) < 0) {
            Object[] given = {Long.valueOf(a), Long.valueOf(b), context};
            return ((Long) sparks("subtractExact", given)).longValue();
        }
        return c;
    }

    public static int multiplyExact(int a, int b) {
        long c = (long) a * (long) b;
        if ((int) c != c) {
            Object[] given = {Integer.valueOf(a), Integer.valueOf(b)};
            return ((Integer) sparks("multiplyExact", given)).intValue();
        }
        return (int) c;
    }

    public static int multiplyExact(int a, int b, QueryContext context) {
        long c = (long) a * (long) b;
        if ((int) c != c) {
            Object[] given = {Integer.valueOf(a), Integer.valueOf(b), context};
            return ((Integer) sparks("multiplyExact", given)).intValue();
        }
        return (int) c;
    }

    public static long multiplyExact(long a, long b) {
        long high = Math.multiplyHigh(a, b);
        long c = a * b;
        if (high != c >> 63) {
            Object[] given = {Long.valueOf(a), Long.valueOf(b)};
            return ((Long) sparks("multiplyExact", given)).longValue();
        }
        return c;
    }

    public static long multiplyExact(long a, long b, QueryContext context) {
        long high = Math.multiplyHigh(a, b);
        long c = a * b;
        if (high != c >> 63) {
            Object[] given = {Long.valueOf(a), Long.valueOf(b), context};
            return ((Long) sparks("multiplyExact", given)).longValue();
        }
        return c;
    }

    public static int floorDiv(int a, int b) {
        if (b <= 0) {
            Object[] given = {Integer.valueOf(a), Integer.valueOf(b)};
            return ((Integer) sparks("floorDiv", given)).intValue();
        }
        return Math.floorDiv(a, b);
    }

    public static long floorDiv(long a, long b) {
        if (b <= 0) {
            Object[] given = {Long.valueOf(a), Long.valueOf(b)};
            return ((Long) sparks("floorDiv", given)).longValue();
        }
        return Math.floorDiv(a, b);
    }

    public static int floorMod(int a, int b) {
        if (b <= 0) {
            Object[] given = {Integer.valueOf(a), Integer.valueOf(b)};
            return ((Integer) sparks("floorMod", given)).intValue();
        }
        return Math.floorMod(a, b);
    }

    public static long floorMod(long a, long b) {
        if (b <= 0) {
            Object[] given = {Long.valueOf(a), Long.valueOf(b)};
            return ((Long) sparks("floorMod", given)).longValue();
        }
        return Math.floorMod(a, b);
    }

    public static byte negateExact(byte a) {
        if (a == Byte.MIN_VALUE) {
            Object[] given = {Byte.valueOf(a)};
            return ((Byte) sparks("negateExact", given)).byteValue();
        }
        return (byte) -a;
    }

    public static short negateExact(short a) {
        if (a == Short.MIN_VALUE) {
            Object[] given = {Short.valueOf(a)};
            return ((Short) sparks("negateExact", given)).shortValue();
        }
        return (short) -a;
    }

    public static int negateExact(int a) {
        if (a == Integer.MIN_VALUE) {
            Object[] given = {Integer.valueOf(a)};
            return ((Integer) sparks("negateExact", given)).intValue();
        }
        return (int) -a;
    }

    public static long negateExact(long a) {
        if (a == Long.MIN_VALUE) {
            Object[] given = {Long.valueOf(a)};
            return ((Long) sparks("negateExact", given)).longValue();
        }
        return (long) -a;
    }

    public static int toIntExact(long a) {
        if ((int) a != a) {
            Object[] given = {Long.valueOf(a)};
            return ((Integer) sparks("toIntExact", given)).intValue();
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
        Object[] given = {Double.valueOf(a), context};
        return ((Long) sparks("doubleToLong", given)).longValue();
    }

    public static Object withOverflow(Function0 f, String hint, QueryContext context) {
        return sparks("withOverflow", new Object[] {f, hint, context});
    }

    public static String withOverflow$default$2() {
        return "";
    }

    public static QueryContext withOverflow$default$3() {
        return null;
    }

    public static String withOverflowCode(String code, String context) {
        return (String) sparks("withOverflowCode", new Object[] {code, context});
    }

    /** What Spark's own class says; slow, and for what overflows. */
    private static Object sparks(String name, Object[] arguments) {
        Class[] types = new Class[arguments.length];
        for (int i = 0; i < types.length; i++) types[i] = type(arguments[i]);
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

    private static Class type(Object argument) {
        if (argument instanceof Integer) return int.class;
        if (argument instanceof Long) return long.class;
        if (argument instanceof Short) return short.class;
        if (argument instanceof Byte) return byte.class;
        if (argument instanceof Double) return double.class;
        if (argument instanceof String) return String.class;
        return argument instanceof Function0 ? Function0.class : QueryContext.class;
    }
}
